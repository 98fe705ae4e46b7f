# gpupipe on the CPU: portable models are served from this image too. Versions: versions.env.
ARG PYTHON_VERSION
ARG DEBIAN_RELEASE
FROM python:${PYTHON_VERSION}-slim-${DEBIAN_RELEASE}

# what is installed, before what changes daily
COPY pyproject.toml docker/requirements.py /src/
RUN python /src/requirements.py /src/pyproject.toml cpu cluster > /src/requirements.txt \
    && pip install --no-cache-dir --requirement /src/requirements.txt \
    && useradd --create-home --uid 10001 gpupipe

COPY README.md LICENSE /src/
COPY kernels /src/kernels
COPY gpupipe /src/gpupipe
RUN pip install --no-cache-dir --no-deps --no-build-isolation /src

# any user may run the image (docker run --user), also one without a home: each gets a copy of what root compiled
ENV MPLCONFIGDIR=/tmp/matplotlib NUMBA_CACHE_DIR=/var/cache/gpupipe
# for the kind of processor that builds the image; another one compiles them when it first needs them
RUN gpupipe kernels warm && chmod --recursive go=rX "$NUMBA_CACHE_DIR" && chmod 1777 "$NUMBA_CACHE_DIR"
USER 10001
WORKDIR /data
ENTRYPOINT ["gpupipe"]
CMD ["--help"]
