FROM codehub-test/base
RUN useradd --uid 1000 --create-home --home-dir /home/coder --shell /bin/bash coder
COPY lib /opt/code-server/lib
COPY bin /opt/code-server/bin
COPY node_modules /opt/code-server/node_modules
RUN ln -s /opt/code-server/bin/code-server /usr/local/bin/code-server
USER 1000:1000
ENTRYPOINT ["/usr/bin/tini", "-s", "--", "/opt/code-server/bin/code-server"]
