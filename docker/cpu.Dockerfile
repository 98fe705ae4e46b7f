# gpupipe on the CPU, also for serving portable models. Versions: versions.env.
ARG PYTHON_VERSION
ARG DEBIAN_RELEASE
FROM python:${PYTHON_VERSION}-slim-${DEBIAN_RELEASE}

# dependencies first: the code changes more often
COPY pyproject.toml docker/requirements.py /src/
RUN python /src/requirements.py /src/pyproject.toml cpu cluster > /src/requirements.txt \
    && pip install --no-cache-dir --requirement /src/requirements.txt \
    && useradd --create-home --uid 10001 gpupipe

COPY README.md LICENSE /src/
COPY kernels /src/kernels
COPY gpupipe /src/gpupipe
RUN pip install --no-cache-dir --no-deps --no-build-isolation /src

# any user can run the image (docker run --user), even without a home folder: each gets a copy of root's compiled kernels
ENV NUMBA_CACHE_DIR=/var/cache/gpupipe
# kernels are compiled for the processor type that builds the image; others compile on first use
RUN gpupipe kernels warm && chmod --recursive go=rX "$NUMBA_CACHE_DIR" && chmod 1777 "$NUMBA_CACHE_DIR"
USER 10001
WORKDIR /data
ENTRYPOINT ["gpupipe"]
CMD ["--help"]
