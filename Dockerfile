# The server: API, chores, beat, Flower and migrations are one image with different commands.
#   docker build -t celeriac . && docker run --rm celeriac --help

ARG PYTHON=3.12

# Our own wheels. The build backend comes from the lock as well, so nothing is fetched that has no hash.
FROM python:${PYTHON}-slim AS wheels
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
COPY requirements.lock ./
RUN pip install --require-hashes --no-deps --only-binary :all: -r requirements.lock
COPY . .
RUN pip wheel --no-deps --no-build-isolation --no-index --wheel-dir /wheels ./sdk .

FROM python:${PYTHON}-slim AS environment
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python -m venv /opt/celeriac
COPY requirements.server.lock /tmp/
RUN /opt/celeriac/bin/pip install --require-hashes --no-deps --only-binary :all: -r /tmp/requirements.server.lock
COPY --from=wheels /wheels /wheels
RUN /opt/celeriac/bin/pip install --no-deps --no-index /wheels/*.whl

# No compiler, no cache, no build backend, and no right to change what it runs.
FROM python:${PYTHON}-slim
RUN useradd --system --uid 10001 --no-create-home --shell /usr/sbin/nologin celeriac
COPY --from=environment /opt/celeriac /opt/celeriac
ENV PATH=/opt/celeriac/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 10001
WORKDIR /tmp
ENTRYPOINT ["celeriac"]
CMD ["--help"]
# What "healthy" means differs from command to command: see docker-compose.yml.
HEALTHCHECK NONE
