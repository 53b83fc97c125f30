// Beside the dev server's own: what a request's Host is, an answer in two parts, and the size of an upload.
let goOn = () => {};

const answers = {
  "/host": (request, response) => response.end(request.headers.host),
  "/parts": (_, response) => {
    response.write("first");
    goOn = () => response.end("second");
  },
  "/go-on": (_, response) => response.end(String(goOn())),
  "/size": async (request, response) => {
    let size = 0;
    for await (const part of request) size += part.length;
    response.end(String(size));
  },
};

export default {
  plugins: [{
    name: "answers",
    configureServer(server) {
      server.middlewares.use((request, response, next) => {
        const answer = answers[request.url];
        return answer ? answer(request, response) : next();
      });
    },
  }],
};
