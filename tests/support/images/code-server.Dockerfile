FROM codehub-test/base
RUN useradd --uid 1000 --create-home --home-dir /home/coder --shell /bin/bash coder
COPY node /usr/local/bin/node
COPY node_modules /opt/code-server/node_modules
RUN ln -s /opt/code-server/node_modules/code-server/out/node/entry.js /usr/local/bin/code-server
USER 1000:1000
ENTRYPOINT ["/usr/bin/tini", "-s", "--", "/usr/local/bin/node", "/opt/code-server/node_modules/code-server/out/node/entry.js"]
