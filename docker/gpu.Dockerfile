# gpupipe with RAPIDS, for NVIDIA GPUs with compute capability 7.5 or higher and drivers for CUDA 13 (580 or newer).
# The extra installs CUDA's libraries as wheels, so the base image only has to support `--gpus all`.
# Versions: versions.env.
ARG CUDA_VERSION
ARG UBUNTU_RELEASE
FROM nvidia/cuda:${CUDA_VERSION}-base-ubuntu${UBUNTU_RELEASE}
ARG PYTHON_VERSION
ARG CUDA_EXTRA

# not pinned: Ubuntu removes a Python build with the next security fix
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends "python${PYTHON_VERSION}" "python${PYTHON_VERSION}-venv" \
    && rm -rf /var/lib/apt/lists/*
ENV PATH=/opt/gpupipe/bin:$PATH

# dependencies first (gigabytes): the code changes more often
COPY pyproject.toml docker/requirements.py /src/
RUN "python${PYTHON_VERSION}" -m venv /opt/gpupipe \
    && python /src/requirements.py /src/pyproject.toml "$CUDA_EXTRA" > /src/requirements.txt \
    && pip install --no-cache-dir --requirement /src/requirements.txt \
    && useradd --create-home --uid 10001 gpupipe

COPY README.md LICENSE /src/
COPY kernels /src/kernels
COPY gpupipe /src/gpupipe
RUN pip install --no-cache-dir --no-deps --no-build-isolation /src

# any user can run the image (docker run --user), even without a home folder: each gets a copy of root's compiled kernels
ENV NUMBA_CACHE_DIR=/var/cache/gpupipe
# CPU kernels, for the processor type that builds the image. The build has no GPU, so GPU kernels are compiled on the first
# run; a volume at NUMBA_CACHE_DIR keeps them.
RUN gpupipe kernels warm && chmod --recursive go=rX "$NUMBA_CACHE_DIR" && chmod 1777 "$NUMBA_CACHE_DIR"
USER 10001
WORKDIR /data
# exits with 4 if the driver, the wheels or the GPU do not fit the image
HEALTHCHECK --interval=30m --timeout=2m --retries=1 CMD ["gpupipe", "doctor"]
ENTRYPOINT ["gpupipe"]
CMD ["--help"]
