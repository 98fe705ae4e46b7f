# gpupipe with RAPIDS, for NVIDIA GPUs of compute capability 7.5 and up and drivers for CUDA 13 (580 and newer).
# The GPU backend arrives in a later release: until then this image computes on the CPU, and says so.
# CUDA's libraries come as wheels with the extra, so the base image only has to make `--gpus all` work.
FROM nvidia/cuda:13.0.1-base-ubuntu24.04

RUN apt-get update \
    && apt-get install --yes --no-install-recommends python3 python3-venv \
    && rm -rf /var/lib/apt/lists/*
ENV PATH=/opt/gpupipe/bin:$PATH

COPY pyproject.toml README.md LICENSE /src/
COPY gpupipe /src/gpupipe
COPY kernels /src/kernels
RUN python3 -m venv /opt/gpupipe \
    && pip install --no-cache-dir '/src[cuda13]' \
    && useradd --create-home gpupipe

# any user may run the image (docker run --user), also one without a home
ENV MPLCONFIGDIR=/tmp/matplotlib NUMBA_CACHE_DIR=/var/cache/gpupipe
# for the kind of processor that builds the image; another one compiles them when it first needs them
RUN gpupipe kernels warm && chmod --recursive a+rwX "$NUMBA_CACHE_DIR"
USER gpupipe
WORKDIR /data
ENTRYPOINT ["gpupipe"]
CMD ["--help"]
