// Refreshes the page in place. Everything works without it: a page is what the server has rendered,
// and this module only asks for it again and changes what has changed. Focus, what is typed or
// ticked, open details and the scroll position stay.

const main = document.getElementById("main");
const live = document.getElementById("live");
const text = document.getElementById("live-text");
const button = document.getElementById("live-button");
const slowest = 30_000;
const timeout = 10_000;
const memory = "errand-live";
const trusted = 15_000; // a verdict rests on nothing older

let every = Number(main.dataset.every) * 1000; // 0: the page stays as it is
let etag = "";
let wait = every;
let timer = 0;
let freshAt = Date.now(); // when the page was known to be as the server has it
let isPaused = recall() === "paused";

// A browser may forbid storage; then the pause lasts as long as the page.
function recall() {
  try {
    return localStorage.getItem(memory);
  } catch {
    return null;
  }
}

function remember(value) {
  try {
    localStorage.setItem(memory, value);
  } catch {
    // see recall
  }
}

function say(state) {
  if (text.textContent !== state) text.textContent = state;
}

// isBusy reports whether the person is about to use what a refresh might move: they point at a list,
// mark text, fill in a form, or have ticked jobs of a list.
function isBusy() {
  const active = document.activeElement;
  return main.querySelector("[data-still]:hover") !== null
    || main.querySelector("td :checked") !== null
    || getSelection()?.type === "Range"
    || (main.contains(active) && active.matches("input, select, textarea"));
}

// load asks for the page. The browser parses the answer as a document of its own, in which no script
// runs.
function load() {
  const request = new XMLHttpRequest();
  request.open("GET", location.href);
  request.responseType = "document";
  request.timeout = timeout;
  if (etag) request.setRequestHeader("If-None-Match", etag);
  request.onload = () => arrived(request);
  request.onerror = request.ontimeout = failed;
  request.send();
}

function arrived(request) {
  if (request.status === 304) {
    freshAt = Date.now();
    return again("Live");
  }
  const fresh = request.response?.getElementById("main");
  if (request.status !== 200 || !fresh) return failed();
  if (isPaused || isBusy()) return again(isPaused ? "Paused" : "Waiting");
  etag = request.getResponseHeader("ETag") ?? "";
  every = Number(fresh.dataset.every) * 1000;
  live.hidden = every === 0;
  const focused = document.activeElement;
  syncChildren(main, fresh);
  freshAt = Date.now();
  if (focused !== document.activeElement && focused?.isConnected) focused.focus({ preventScroll: true });
  again("Live");
}

function failed() {
  wait = Math.min(wait * 2, slowest);
  say("No answer, will retry");
  schedule();
}

function again(state) {
  wait = every;
  say(state);
  schedule();
}

function schedule() {
  clearTimeout(timer);
  if (isPaused || document.hidden || every === 0) return;
  timer = setTimeout(() => (isBusy() ? again("Waiting") : load()), wait);
}

// doubt takes back a verdict that has become old, because the page was paused or is in use, or
// because the server does not answer. The next load brings a new one.
function doubt() {
  const word = main.querySelector(".verdict:not(.why) .word");
  if (!word || Date.now() - freshAt <= trusted || "then" in word.dataset) return;
  const verdict = word.parentElement;
  word.dataset.then = word.textContent;
  word.textContent = "Unknown";
  verdict.className = "verdict unknown";
  const since = new Date(freshAt).toLocaleTimeString();
  word.nextElementSibling.textContent = `Not known since ${since}. Then: ${word.dataset.then}. ${word.nextElementSibling.textContent}`;
  etag = "";
}

// sync makes the old node like the fresh one, and keeps the old one where it can.
function sync(old, fresh) {
  if (old.isEqualNode(fresh)) return;
  if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName || old.id !== fresh.id) {
    old.replaceWith(document.importNode(fresh, true));
  } else if (old.nodeType !== Node.ELEMENT_NODE) {
    old.nodeValue = fresh.nodeValue;
  } else {
    syncAttributes(old, fresh);
    syncChildren(old, fresh);
  }
}

// isTheirs reports whether the person sets the attribute: whether details are open.
function isTheirs(element, name) {
  return name === "open" && element.nodeName === "DETAILS";
}

function syncAttributes(old, fresh) {
  for (const { name, value } of fresh.attributes) {
    if (!isTheirs(old, name) && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  for (const { name } of [...old.attributes]) {
    if (!isTheirs(old, name) && !fresh.hasAttribute(name)) old.removeAttribute(name);
  }
}

// syncChildren pairs children by their IDs, and those without one by their place.
function syncChildren(old, fresh) {
  const wanted = new Set([...fresh.children].map((child) => child.id).filter(Boolean));
  const known = new Map();
  for (const child of [...old.children]) {
    if (!child.id) continue;
    if (wanted.has(child.id)) known.set(child.id, child);
    else child.remove();
  }
  let at = old.firstChild;
  for (const want of [...fresh.childNodes]) {
    const have = want.id ? known.get(want.id) : at?.id ? null : at;
    if (!have) {
      old.insertBefore(document.importNode(want, true), at);
      continue;
    }
    if (have === at) at = at.nextSibling;
    else old.insertBefore(have, at);
    sync(have, want);
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

function showButton() {
  button.textContent = isPaused ? "Resume" : "Pause";
  say(isPaused ? "Paused" : "Live");
}

if (live && every > 0) {
  live.hidden = false;
  showButton();
  button.addEventListener("click", () => {
    isPaused = !isPaused;
    remember(isPaused ? "paused" : "live");
    showButton();
    schedule();
  });
  document.addEventListener("visibilitychange", () => {
    doubt();
    schedule();
  });
  setInterval(doubt, 1000);
  schedule();
}
