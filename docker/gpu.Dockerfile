# gpupipe with RAPIDS, for NVIDIA GPUs of compute capability 7.5 and up and drivers for CUDA 13 (580 and newer).
# CUDA's libraries come as wheels with the extra, so the base image only has to make `--gpus all` work. Versions:
# versions.env.
ARG CUDA_VERSION
ARG UBUNTU_RELEASE
FROM nvidia/cuda:${CUDA_VERSION}-base-ubuntu${UBUNTU_RELEASE}
ARG PYTHON_VERSION
ARG CUDA_EXTRA

# Ubuntu keeps one build of a release's Python: a pinned one is gone with its next security fix
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends "python${PYTHON_VERSION}" "python${PYTHON_VERSION}-venv" \
    && rm -rf /var/lib/apt/lists/*
ENV PATH=/opt/gpupipe/bin:$PATH

# what is installed (gigabytes), before what changes daily
COPY pyproject.toml docker/requirements.py /src/
RUN "python${PYTHON_VERSION}" -m venv /opt/gpupipe \
    && python /src/requirements.py /src/pyproject.toml "$CUDA_EXTRA" > /src/requirements.txt \
    && pip install --no-cache-dir --requirement /src/requirements.txt \
    && useradd --create-home --uid 10001 gpupipe

COPY README.md LICENSE /src/
COPY kernels /src/kernels
COPY gpupipe /src/gpupipe
RUN pip install --no-cache-dir --no-deps --no-build-isolation /src

# any user may run the image (docker run --user), also one without a home: each gets a copy of what root compiled
ENV MPLCONFIGDIR=/tmp/matplotlib NUMBA_CACHE_DIR=/var/cache/gpupipe
# The host's side, for the kind of processor that builds the image. An image is built without a GPU, so the device's
# side is compiled when it first runs; a volume at NUMBA_CACHE_DIR keeps it.
RUN gpupipe kernels warm && chmod --recursive go=rX "$NUMBA_CACHE_DIR" && chmod 1777 "$NUMBA_CACHE_DIR"
USER 10001
WORKDIR /data
# a hint, not a cure: 4 where the driver, the wheels or the GPU are not what the image needs
HEALTHCHECK --interval=30m --timeout=2m --retries=1 CMD ["gpupipe", "doctor"]
ENTRYPOINT ["gpupipe"]
CMD ["--help"]
