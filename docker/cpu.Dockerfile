# gpupipe on the CPU: portable models are served from this image too.
FROM python:3.11-slim

COPY pyproject.toml README.md LICENSE /src/
COPY gpupipe /src/gpupipe
COPY kernels /src/kernels
RUN pip install --no-cache-dir '/src[cpu]' \
    && useradd --create-home gpupipe

# any user may run the image (docker run --user), also one without a home
ENV MPLCONFIGDIR=/tmp/matplotlib NUMBA_CACHE_DIR=/var/cache/gpupipe
# for the kind of processor that builds the image; another one compiles them when it first needs them
RUN gpupipe kernels warm && chmod --recursive a+rwX "$NUMBA_CACHE_DIR"
USER gpupipe
WORKDIR /data
ENTRYPOINT ["gpupipe"]
CMD ["--help"]
