# gpupipe on the CPU: portable models are served from this image too.
FROM python:3.11-slim

COPY pyproject.toml README.md LICENSE /src/
COPY gpupipe /src/gpupipe
COPY kernels /src/kernels
RUN pip install --no-cache-dir '/src[cpu]' \
    && useradd --create-home gpupipe

# any user may run the image (docker run --user), also one without a home
ENV MPLCONFIGDIR=/tmp/matplotlib
USER gpupipe
WORKDIR /data
ENTRYPOINT ["gpupipe"]
CMD ["--help"]
