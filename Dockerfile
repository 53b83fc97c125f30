# codehub as an image: docker build -t codehub .
# The base is any Debian 12 with Python 3.11 or later and its venv; --build-arg BASE=… chooses another.
ARG BASE=python:3.12.11-slim-bookworm

FROM ${BASE} AS build
WORKDIR /build
RUN python3 -m venv /opt/codehub
COPY requirements/run.txt requirements/
RUN /opt/codehub/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes -r requirements/run.txt
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN /opt/codehub/bin/pip install --no-cache-dir --disable-pip-version-check --no-deps --no-build-isolation .

FROM ${BASE}
# bubblewrap isolates workspaces that run as processes; tini reaps what they leave.
RUN apt-get update && apt-get install -y --no-install-recommends bubblewrap tini && rm -rf /var/lib/apt/lists/*
COPY --from=build /opt/codehub /opt/codehub
ENV PATH=/opt/codehub/bin:$PATH CODEHUB_DATA_DIR=/var/lib/codehub
VOLUME /var/lib/codehub
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s \
    CMD ["python3", "-c", "import os, urllib.request as r; r.urlopen('http://127.0.0.1:' + os.environ.get('CODEHUB_PORT', '8000') + '/readyz', timeout=2)"]
ENTRYPOINT ["/usr/bin/tini", "--", "codehub"]
CMD ["up"]
