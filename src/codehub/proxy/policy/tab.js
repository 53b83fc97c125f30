// What codehub adds to the page of an IDE. It tells that somebody is there, never what they do, and shows what becomes of the workspace.
(() => {
  const base = new URL(".", document.currentScript.src);
  const visible = 25, hidden = 120;
  let every = 20, noted = 0, waiting = 0, timer = 0, failed = 0, run = "", shown = "", left = 0, clock = 0, texts, dialog;

  const ask = (what, method = "GET") => fetch(new URL(what, base), { method, cache: "no-store", redirect: "manual", headers: { Accept: "application/json" } });
  const say = () => `?for=${document.hidden ? hidden : visible}${texts ? "" : "&texts=1"}`;
  const poll = () => hear(ask("state" + say()));

  async function hear(asked) {
    clearTimeout(timer);
    let next = visible;
    try {
      const answer = await asked;
      if (answer.status === 401) show("signed_out");
      else if (answer.status === 403 || answer.status === 404) show("gone");
      else if (answer.ok) next = tell(await answer.json());
      else throw answer.status;
      failed = 0;
    } catch (_) {
      next = Math.min(2 * ++failed, 10);
      if (failed > 1 && !document.hidden) show("away");
    }
    clearTimeout(timer);
    timer = setTimeout(poll, 1000 * (document.hidden ? hidden : next));
  }

  function tell(told) {
    texts = told.texts || texts;
    every = told.note_s;
    if (told.state !== "open") {
      if (shown !== "limit" || told.state !== "asleep") show(told.state);
      return told.state === "starting" ? 3 : 2 * visible;
    }
    run = run || told.run;
    left = told.sleeps_in_s;
    if (run !== told.run) show("again");
    else if (left === null || left > told.warns_s) hide();
    else { show("warning"); return 5; }
    return left === null ? visible : Math.max(1, Math.min(visible, left - told.warns_s));
  }

  // Notes: of real input, at most one in so many seconds.
  function input(event) {
    if (!event.isTrusted || waiting) return;
    waiting = setTimeout(() => {
      waiting = 0;
      noted = Date.now();
      hear(ask("use" + say(), "POST"));
    }, Math.max(0, noted + 1000 * every - Date.now()));
  }
  const heard = new WeakSet();
  function listen(to) {
    if (heard.has(to)) return;
    heard.add(to);
    for (const kind of ["keydown", "pointerdown", "touchmove", "wheel"]) to.addEventListener(kind, input, { capture: true, passive: true });
    to.addEventListener("pointerover", event => frame(event.target), { capture: true, passive: true });
    to.addEventListener("focusin", event => frame(event.target), true);
  }
  // A frame of the same origin is heard from the moment that a pointer or the focus comes to it.
  function frame(element) {
    try { if (element.contentDocument) listen(element.contentDocument); } catch (_) { /* another's */ }
  }

  async function act(kind) {
    if (kind === "away") return poll();
    if (kind === "warning") return hear(ask("keep_awake", "POST").then(() => ask("state" + say())));
    if (kind !== "asleep") return location.reload();
    try {
      const answer = await ask("start", "POST");
      if (answer.status === 429) return show("limit", (await answer.json()).error.message);
      if (answer.status < 500) location.reload();
    } catch (_) { poll(); }
  }

  const style = new CSSStyleSheet();
  style.replaceSync(`
    :host { all: initial; }
    dialog { font: 15px/1.5 system-ui, sans-serif; color: #16171d; background: #fff; border: 1px solid #cfcfd8; border-radius: 14px; padding: 1.5rem; width: 24rem; max-width: calc(100vw - 2rem); box-sizing: border-box; box-shadow: 0 8px 40px #0004; word-break: keep-all; overflow-wrap: anywhere; }
    dialog::backdrop { background: #0e0f13b0; }
    dialog.small { position: fixed; inset: auto auto 2.5rem 50%; transform: translateX(-50%); margin: 0; padding: .75rem 1rem; z-index: 2147483647; }
    h2 { font-size: 1.125rem; margin: 0 0 .25rem; } .small h2 { font-size: 1rem; }
    p { margin: 0 0 1rem; color: #5b5e6b; } .small p { margin: 0 0 .5rem; font-size: .875rem; }
    button { font: 550 .875rem/1 system-ui, sans-serif; min-height: 2.5rem; padding: 0 1rem; border: 0; border-radius: 8px; cursor: pointer; background: #4a43d8; color: #fff; }
    button:focus-visible { outline: 2px solid #4a43d8; outline-offset: 2px; }
    @media (prefers-color-scheme: dark) { dialog { color: #ececf1; background: #16171d; border-color: #3a3c48; } p { color: #a3a6b4; } button { background: #a5a0ff; color: #14122e; } button:focus-visible { outline-color: #a5a0ff; } }`);

  // Escape makes a dialog small, so that what is behind it can be read; its button stays.
  function show(kind, why) {
    if (shown === kind || !texts) return;
    hide();
    shown = kind;
    const host = document.createElement("codehub-tab"), root = host.attachShadow({ mode: "open" });
    const make = (tag, id, text) => { const made = document.createElement(tag); made.id = id; made.textContent = text; return made; };
    const [title, words, button] = texts[kind] || texts.gone;
    dialog = document.createElement("dialog");
    dialog.setAttribute("aria-labelledby", "title");
    dialog.setAttribute("aria-describedby", "why");
    dialog.lang = texts.lang;
    const go = make("button", "go", button);
    go.addEventListener("click", () => act(kind));
    dialog.append(make("h2", "title", title), make("p", "why", why || words), go);
    root.adoptedStyleSheets = [style];
    root.append(dialog);
    for (const event of ["keydown", "keyup", "keypress", "paste"]) host.addEventListener(event, event => event.stopPropagation());
    document.documentElement.append(host);
    if (kind === "warning" || kind === "away") settle();
    else {
      dialog.setAttribute("role", "dialog");
      const mine = dialog;
      mine.addEventListener("close", () => { if (dialog === mine) settle(); });
      dialog.showModal();
    }
    if (kind === "warning") {
      const until = Date.now() + 1000 * left;
      clock = setInterval(count, 1000, until, words);
      count(until, words);
    }
  }
  function settle() {
    dialog.className = "small";
    dialog.setAttribute("role", "alert");
    dialog.setAttribute("open", "");
  }
  function count(until, words) {
    const said = words.replace("{s}", 10 * Math.max(1, Math.ceil((until - Date.now()) / 10000))), place = dialog.querySelector("p");
    if (place.textContent !== said) place.textContent = said; // each change is read aloud
  }
  function hide() {
    clearInterval(clock);
    if (dialog) { if (dialog.matches(":modal")) dialog.close(); dialog.getRootNode().host.remove(); }
    dialog = null;
    shown = "";
  }

  if (top !== self) return;
  listen(document);
  document.addEventListener("visibilitychange", poll);
  addEventListener("online", poll);
  poll();
})();
