// What the dashboard does beside htmx: it follows events, keeps times true, and says when it can't. It decides nothing.
"use strict";
(() => {
  const body = document.body, units = JSON.parse(body.dataset.units || "{}");
  if (body.dataset.address) history.replaceState(null, "", body.dataset.address); // what it says, or did, it says and does once
  const skew = Date.now() - Date.parse(body.dataset.now); // this machine's clock may be wrong: the server's counts
  const now = () => Date.now() - skew;
  const fill = (text, facts) => text.replace(/\{(\w+)\}/g, (_, key) => facts[key]);

  // Times: the same rules as span, _nearest, left and relative of web/measures.py.
  const span = (seconds) => {
    for (const [unit, size] of [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]]) {
      if (seconds < size && unit !== "s") continue;
      const n = Math.floor(seconds / size);
      return unit === "d" && n === 1 ? units["unit.d.1"] : fill(units["unit." + unit], { n });
    }
  };
  const nearest = (seconds) => {
    for (const [size, less] of [[86400, 3600], [3600, 60], [60, 1]]) if (seconds + less / 2 >= size) return Math.floor((seconds + size / 2) / size) * size;
    return Math.round(seconds);
  };
  const countdown = (seconds) => {
    const [length, least] = seconds >= 86400 ? [86400, 3600] : [3600, 60], rest = seconds % length;
    return seconds >= length && rest >= least ? span(seconds) + " " + span(rest) : span(seconds);
  };
  const paint = (element, text) => { if (element.textContent !== text) element.textContent = text; };
  const tick = (root = document) => {
    for (const time of root.querySelectorAll("time[data-rel], time[data-left]")) {
      const at = Date.parse(time.dateTime), left = (at - now()) / 1000;
      if (time.title.endsWith(" UTC")) time.title = new Date(at).toLocaleString(document.documentElement.lang);
      if ("left" in time.dataset) paint(time, countdown(Math.max(left, 0)));
      else paint(time, Math.abs(left) < 5 ? units.now : left > 0 ? fill(units.in, { t: span(nearest(left)) }) : fill(units.ago, { t: span(-left) }));
    }
  };
  setInterval(tick, 1000);

  // What "Earlier" brought stays below a newer history, if nothing is missing between the two. Another state has other output.
  const carry = (old) => (fresh) => {
    if (old.dataset.state !== fresh.dataset.state) for (const part of ["#logs", "#ports"]) if (document.querySelector(part)) htmx.trigger(part, "fresh");
    const before = Number(fresh.querySelector(".timeline .earlier")?.dataset.before);
    const lines = [...old.querySelectorAll(".timeline > [data-seq]")];
    if (!before || !old.querySelector(".timeline [data-earlier]") || Number(lines[0].dataset.seq) < before) return;
    const older = lines.filter((line) => Number(line.dataset.seq) < before), rest = old.querySelector(".timeline .earlier");
    fresh.querySelector(".timeline .earlier").replaceWith(...older, ...(rest ? [rest] : []));
  };

  // An answer is on its way, maybe of an older state; or a button is held down, whose click would be lost: look again after it.
  const isBusy = (old) => {
    if (!old.querySelector(".htmx-request, :active")) return false;
    setTimeout(() => { due.add(old.dataset.id || body.dataset.only); ask(); }, 100);
    return true;
  };

  // What comes from the server takes the place of what has its id. An open menu and the focus stay.
  const key = (one) => one.id || one.getAttribute("formaction") || one.getAttribute("href");
  const place = (html) => {
    const made = document.createElement("template");
    made.innerHTML = html;
    const came = new Set();
    for (const fresh of [...made.content.children]) {
      came.add(fresh.id);
      const old = document.getElementById(fresh.id), held = document.activeElement;
      fresh.removeAttribute("hx-swap-oob");
      if (old) {
        if (isBusy(old)) continue;
        const open = [...old.querySelectorAll("details[open][id]")].map((one) => one.id);
        const focus = old.contains(held) && key(held), ticked = [...old.querySelectorAll("input[id]:checked")].map((one) => one.id);
        const scrolls = old.querySelector("#d-sure") && focus;
        old.replaceWith(fresh);
        carry(old)(fresh);
        for (const id of open) { const menu = document.getElementById(id); if (menu) { menu.dataset.kept = ""; menu.open = true; menu.closest(".row")?.classList.add("open"); } }
        for (const id of ticked) { const box = document.getElementById(id); if (box) box.checked = true; }
        if (focus) [...fresh.querySelectorAll("a, button, summary, input")].find((one) => key(one) === focus)?.focus({ preventScroll: !scrolls });
      } else if (fresh.matches("li.row")) {
        const rows = [...document.querySelectorAll(".rows > .row")];
        const after = rows.find((row) => row.dataset.order < fresh.dataset.order); // what is pinned, then the newest comes first
        const end = document.getElementById("more");
        if (after) after.before(fresh);
        else if (!end) document.querySelector(".rows")?.append(fresh);
        else continue; // it belongs to a page that is not loaded yet
      } else continue;
      htmx.process(fresh);
      tick(fresh);
    }
    arrange();
    return came;
  };

  // What was pinned or unpinned moves to its place; the focus stays where it is. The last may belong to a page that is not loaded yet.
  const arrange = () => {
    for (const list of document.querySelectorAll("ul.rows")) {
      const rows = [...list.querySelectorAll(":scope > .row[data-order]")], more = list.querySelector(":scope > #more");
      const sorted = [...rows].sort((one, other) => (one.dataset.order < other.dataset.order ? 1 : -1));
      if (sorted.every((row, at) => row === rows[at])) continue;
      const held = document.activeElement, last = sorted.at(-1);
      for (const row of sorted) list.insertBefore(row, more);
      if (more && last !== rows.at(-1)) last.remove();
      if (held && held !== document.activeElement) held.focus({ preventScroll: true });
    }
  };

  // A list without rows says so.
  const count = () => { for (const list of document.querySelectorAll("ul.rows")) list.closest("section").classList.toggle("bare", !list.querySelector(".row")); };

  // Rows that changed are asked for together: one request at a time, the next one takes all that came meanwhile. While a list is on its way,
  // which may know less, they wait for it.
  const due = new Set(), prefix = body.dataset.prefix || "ws-";
  let asking = false;
  const ask = async () => {
    if (asking || !due.size || document.querySelector("#list.htmx-request, #more.htmx-request")) return;
    asking = true;
    const ids = [...due].slice(0, 100);
    ids.forEach((id) => due.delete(id));
    try {
      if (body.dataset.part) place(await get(body.dataset.part, "ws"));
      else {
        const address = new URL(body.dataset.rows, location.href), asked = location.search;
        for (const key of ["q", "phase"]) {
          const value = new URLSearchParams(asked).get(key);
          if (value) address.searchParams.set(key, value);
        }
        ids.forEach((id) => address.searchParams.append("id", id));
        const rows = await get(address, "rows");
        if (location.search !== asked) ids.forEach((id) => due.add(id)); // the list is filtered otherwise by now: these may not fit it
        else {
          const came = place(rows);
          for (const old of ids.map((id) => document.getElementById(prefix + id))) if (old && !came.has(old.id) && !isBusy(old)) old.remove();
          count();
        }
      }
    } catch (failed) {
      if (failed instanceof Gone && body.dataset.gone) location.replace(body.dataset.gone); // its own page is no place to come back to
      else { ids.forEach((id) => due.add(id)); await new Promise((done) => setTimeout(done, 1000)); }
    }
    asking = false;
    ask();
  };
  class Gone extends Error {}
  const get = async (address, target) => {
    const answer = await fetch(address, { headers: { "HX-Request": "true", "HX-Target": target, "HX-Current-URL": location.href } });
    if (answer.status === 401) { location.assign("/login?next=" + encodeURIComponent(location.pathname + location.search) + "&ended=page"); await new Promise(() => {}); }
    if (answer.status === 404 || answer.status === 403) throw new Gone();
    if (!answer.ok) throw new Error(answer.status);
    return answer.text();
  };

  // Everything anew: after a time in which events may have been missed.
  const catchUp = async () => {
    missed = false;
    if (body.dataset.part) { due.add(body.dataset.only); ask(); return; }
    const rows = [...document.querySelectorAll(".rows > .row")].map((row) => row.dataset.id);
    rows.forEach((id) => due.add(id));
    ask();
    const filter = document.querySelector("form.filter"), shown = new URLSearchParams(location.search);
    if (filter && [...new FormData(filter)].some(([key, value]) => value !== (shown.get(key) || ""))) { // it was chosen while nobody answered
      htmx.trigger(filter, "submit");
      return;
    }
    const made = document.createElement("template");
    try { made.innerHTML = await get(location.href, "list"); } catch { setTimeout(catchUp, 1000); return; } // and what is new
    for (const row of made.content.querySelectorAll(".row")) if (!document.getElementById(row.id)) due.add(row.dataset.id);
    ask();
  };

  // Events. A hidden tab holds no connection: browsers give six to a site, and a person may have more tabs.
  const SILENCE_MS = 45000, PATIENCE_MS = 1500;
  const lost = document.getElementById("lost");
  let stream = null, begun = false, heard = 0, wait = 500, missed = false, doubt = 0;
  const say = (isLost) => {
    clearTimeout(doubt);
    if (isLost) { missed = true; doubt = setTimeout(() => { lost.hidden = false; body.classList.add("offline"); }, PATIENCE_MS); }
    else { lost.hidden = true; body.classList.remove("offline"); }
  };
  const hear = (event) => {
    heard = Date.now();
    if (!begun && event.type === "heartbeat") { // it says where the stream begins: something may have happened since the page was drawn
      begun = true;
      if (event.lastEventId !== body.dataset.seq) catchUp();
    }
    const told = JSON.parse(event.data);
    if (!told.id || (body.dataset.only && told.id !== body.dataset.only)) return;
    due.add(told.id);
    ask();
  };
  const close = () => { stream?.close(); stream = null; };
  const open = () => {
    if (stream || document.hidden) return;
    heard = Date.now();
    stream = new EventSource(body.dataset.follow);
    stream.onopen = () => {
      heard = Date.now(); wait = 500; say(false);
      body.dataset.live = "yes";
      if (missed) catchUp();
    };
    stream.onerror = () => {
      say(true);
      delete body.dataset.live;
      if (stream?.readyState !== EventSource.CLOSED) return;
      again();
      get("/api/v1/session", "").catch(() => {}); // if it is the session that ended, this leads to the door
    };
    for (const kind of ["workspace_updated", "workspace_deleted", "workspace_progress", "workspace_sleeping_soon", "heartbeat"]) {
      stream.addEventListener(kind, hear);
    }
  };
  const again = () => {
    close();
    missed = true;
    setTimeout(open, wait);
    wait = Math.min(wait * 2, 10000);
  };
  if (body.dataset.follow) {
    open();
    setInterval(() => { if (stream && Date.now() - heard > SILENCE_MS) { say(true); again(); } }, 5000);
    for (const kind of ["online", "offline"]) addEventListener(kind, () => { close(); missed = true; open(); }); // a codehub on this machine needs no network
    let hiding = 0;
    document.addEventListener("visibilitychange", () => {
      clearTimeout(hiding);
      if (document.hidden) hiding = setTimeout(() => { close(); missed = true; }, 10000);
      else open();
    });
    addEventListener("pagehide", close);
    addEventListener("pageshow", (event) => { if (event.persisted) { missed = true; open(); } });
  }

  // Menus close by Escape, by a click elsewhere, and by a choice.
  document.addEventListener("click", (event) => {
    for (const menu of document.querySelectorAll("details.menu[open]")) {
      const isChosen = menu.contains(event.target) && event.target.closest(".drop button[formaction]");
      if (isChosen) menu.querySelector("summary").focus(); // what is chosen is hidden with its menu
      if (isChosen || !menu.contains(event.target)) menu.open = false;
    }
    const dismiss = event.target.closest("[data-dismiss]");
    if (dismiss) dismiss.closest(".toast").remove();
    const copy = event.target.closest("[data-copy]");
    if (copy) {
      const source = document.querySelector(copy.dataset.copy);
      const done = () => {
        if (copy.textContent === copy.dataset.done) return;
        const before = [...copy.childNodes];
        copy.textContent = copy.dataset.done;
        setTimeout(() => copy.replaceChildren(...before), 2000);
      };
      if (navigator.clipboard) navigator.clipboard.writeText(source.textContent).then(done);
      else { getSelection().selectAllChildren(source); if (document.execCommand("copy")) done(); } // over plain http there is no clipboard
    }
    const sure = event.target.closest("[data-sure]");
    if (sure && confirm(sure.dataset.sure)) sure.value = "yes"; // where no script asks, the server does
    else if (sure) { event.preventDefault(); event.stopPropagation(); }
  }, true);
  document.addEventListener("toggle", (event) => {
    const menu = event.target;
    menu.closest?.(".row")?.classList.toggle("open", menu.open); // see .row.open
    const isKept = "kept" in menu.dataset; // it was open before: whoever looks elsewhere by now is left there
    delete menu.dataset.kept;
    if (menu.open && !isKept) menu.querySelector(".drop")?.scrollIntoView({ block: "nearest" });
  }, true);
  document.addEventListener("keydown", (event) => {
    const menu = event.key === "Escape" && document.querySelector("details.menu[open]");
    if (menu) { menu.open = false; menu.querySelector("summary").focus(); }
  });

  // A form that leaves the page is sent once, however often its button is pressed.
  document.addEventListener("submit", (event) => {
    const pressed = event.submitter;
    if (pressed && !event.target.hasAttribute("hx-post") && !event.target.hasAttribute("hx-get")) setTimeout(() => { pressed.disabled = true; });
  });
  addEventListener("pageshow", () => document.querySelectorAll("button:disabled").forEach((one) => { one.disabled = false; }));

  // Toasts go by themselves, but not while somebody is at them.
  const leave = (toast) => {
    const stay = toast.querySelector("[hx-post]") ? 15000 : 6000;
    const go = () => (toast.matches(":hover, :focus-within") ? setTimeout(go, 2000) : toast.remove());
    setTimeout(go, stay);
  };
  const toasts = document.getElementById("toasts");
  new MutationObserver((changes) => changes.forEach((change) => change.addedNodes.forEach((one) => one.classList && leave(one)))).observe(toasts, { childList: true });
  const complain = (text) => {
    const toast = document.getElementById("complaint").content.cloneNode(true);
    toast.querySelector("span").textContent = text;
    toasts.append(toast);
  };
  document.addEventListener("htmx:sendError", () => complain(body.dataset.unreached));
  document.addEventListener("htmx:responseError", (event) => complain(event.detail.xhr.status === 503 ? body.dataset.away : body.dataset.failed));

  // What a swap would lose: the part of the history that came by "Earlier", and where somebody reads in the output.
  let keep = () => {};
  document.addEventListener("htmx:beforeSwap", (event) => {
    const { target, xhr } = event.detail, log = target.querySelector?.("pre.log");
    if (xhr.getResponseHeader("X-Codehub-Said")) { event.detail.shouldSwap = true; event.detail.isError = false; }
    if (target.id === "ws") { const bring = carry(target); keep = () => { const fresh = document.getElementById("ws"); if (fresh && fresh !== target) bring(fresh); }; }
    // Not while somebody chooses.
    if (target.id === "ports" && event.detail.requestConfig.verb === "get" && target.matches(":focus-within") && document.activeElement.matches("select")) event.detail.shouldSwap = false;
    if (target.id === "logs") {
      const isRead = log && log.scrollTop + log.clientHeight < log.scrollHeight - 8, top = log?.scrollTop;
      keep = () => { const fresh = target.querySelector("pre.log"); if (fresh) fresh.scrollTop = isRead ? top : fresh.scrollHeight; };
    }
  });
  document.addEventListener("htmx:afterSwap", () => { keep(); keep = () => {}; arrange(); tick(); count(); });
  document.addEventListener("htmx:afterRequest", (event) => {
    if (event.detail.successful) event.target.closest?.(".toast")?.remove();
    ask();
  });
})();
