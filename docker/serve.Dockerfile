# A server of one model: `gpupipe serve`, with the packages that it imports and no others. Versions: versions.env.
#
#   SERVE_LIBRARIES   serves                                  site-packages
#   serve             XGBoost and linear models               122 MB: NumPy 72, uvloop 17, gpupipe 13, pydantic 10
#   serve-networks    these and neural networks               208 MB: ONNX Runtime 81
#
# Sizes are unpacked, with bytecode, without Python and pip. Numba, which compiles the row program, would add 218 MB (of
# which llvmlite 182), pyarrow 170, SciPy 143, and pandas, scikit-learn and XGBoost come on top: training,
# `gpupipe predict` and models of scikit-learn need the image of cpu.Dockerfile.
ARG PYTHON_VERSION
ARG DEBIAN_RELEASE
FROM python:${PYTHON_VERSION}-slim-${DEBIAN_RELEASE}
ARG SERVE_LIBRARIES

# dependencies first: the code changes more often
COPY docker/serve-requirements.txt docker/serve-networks-requirements.txt /src/
RUN pip install --no-cache-dir --requirement "/src/${SERVE_LIBRARIES}-requirements.txt" \
    && useradd --create-home --uid 10001 gpupipe

COPY pyproject.toml README.md LICENSE /src/
COPY kernels /src/kernels
COPY gpupipe /src/gpupipe
RUN pip install --no-cache-dir --no-deps /src && rm -r /src

USER 10001
WORKDIR /
EXPOSE 8080
# http.client, since urllib would send the request to a proxy of the environment
HEALTHCHECK --interval=10s --timeout=5s --start-period=10s --retries=3 CMD ["python", "-c", "import http.client as h; c = h.HTTPConnection('127.0.0.1', 8080, timeout=4); c.request('GET', '/v2/health/ready'); raise SystemExit(c.getresponse().status != 200)"]
ENTRYPOINT ["gpupipe"]
# mount a run or model directory that user 10001 can read, or add --user "$(id -u)": docker run --read-only --volume "$PWD/runs/NAME:/model:ro" --publish 127.0.0.1:8080:8080
CMD ["serve", "/model", "--host", "0.0.0.0", "--port", "8080"]
