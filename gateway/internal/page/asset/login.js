// The sign-in page. The access token stays in this page's memory: what comes next begins with a refresh
// by the cookie, as every page does.
"use strict";
(() => {
  const at = (id) => document.getElementById(id);
  const form = at("password-form");
  // A path of this installation, which the server has checked.
  const next = at("sign-in").dataset.next;
  let token = "";
  let waiting = 0;

  const call = async (path, body, bearer) => {
    const headers = {};
    if (body) headers["Content-Type"] = "application/json";
    if (bearer) headers.Authorization = "Bearer " + bearer;
    const response = await fetch(path, {
      method: "POST", headers, body: body ? JSON.stringify(body) : undefined,
      cache: "no-store", credentials: "same-origin", redirect: "error",
    });
    return {
      ok: response.ok, status: response.status, retry: Number(response.headers.get("Retry-After")) || 0,
      body: await response.json().catch(() => ({})),
    };
  };

  const show = (id) => {
    for (const other of ["sign-in", "signed-in", "checking"]) at(other).hidden = other !== id;
  };

  const problem = (text) => {
    at("problem").textContent = text;
    at("problem").hidden = !text;
  };

  const seconds = (n) => (n === 1 ? "1 second" : n + " seconds");

  // what a refused sign-in tells the person.
  const sentence = (answer) => {
    if (answer.status === 401) return "Wrong username or password.";
    if (answer.status === 429) return "Too many attempts. Try again in " + seconds(Math.max(answer.retry, 1)) + ".";
    const detail = answer.body.detail;
    if (answer.status < 500 && typeof detail === "string") return detail.charAt(0).toUpperCase() + detail.slice(1) + ".";
    return "Signalbox cannot sign anybody in at the moment. Try again in a little while.";
  };

  const greet = (answer) => {
    token = answer.body.token;
    if (next) {
      const to = new URL(next, location.origin);
      if (to.origin === location.origin) {
        token = "";
        location.replace(to);
        return;
      }
    }
    at("who").textContent = answer.body.user.username;
    show("signed-in");
    at("signed-in-title").focus();
  };

  const offer = () => {
    show("sign-in");
    if (form) at("username").focus();
    else if (at("provider")) at("provider").focus();
  };

  const busy = (yes) => {
    at("submit").setAttribute("aria-disabled", String(yes));
    at("submit").textContent = yes ? "Signing in…" : "Sign in";
  };

  const refused = (answer) => {
    problem(sentence(answer));
    const field = at("password");
    field.setAttribute("aria-invalid", String(answer.status === 401));
    field.select();
    field.focus();
    if (answer.status !== 429) return;
    // The button says when it is worth trying; the message is not read out every second.
    clearInterval(waiting);
    let left = Math.max(answer.retry, 1);
    const tick = () => {
      at("submit").setAttribute("aria-disabled", String(left > 0));
      at("submit").textContent = left > 0 ? "Wait " + left + " s" : "Sign in";
      if (left-- <= 0) clearInterval(waiting);
    };
    tick();
    waiting = setInterval(tick, 1000);
  };

  const submit = async (event) => {
    event.preventDefault();
    if (at("submit").getAttribute("aria-disabled") === "true") return;
    const [name, password] = [at("username"), at("password")];
    for (const field of [name, password]) {
      field.setAttribute("aria-invalid", String(!field.value));
      if (field.value) continue;
      problem("Enter your username and your password.");
      field.focus();
      return;
    }
    problem("");
    busy(true);
    try {
      const answer = await call("/api/auth/login", { username: name.value, password: password.value });
      busy(false);
      if (!answer.ok) {
        refused(answer);
        return;
      }
      password.value = "";
      greet(answer);
    } catch {
      busy(false);
      problem("Signalbox cannot be reached. Check your connection and try again.");
    }
  };

  const reveal = () => {
    const hidden = at("password").type === "password";
    at("password").type = hidden ? "text" : "password";
    at("reveal").textContent = hidden ? "Hide" : "Show";
    at("reveal").setAttribute("aria-pressed", String(hidden));
  };

  const leave = async () => {
    const answer = await call("/api/auth/logout", null, token).catch(() => null);
    if (!answer || (!answer.ok && answer.status !== 401)) {
      at("who").textContent += " (signing out did not work, try again)";
      return;
    }
    token = "";
    offer();
  };

  for (const place of document.querySelectorAll("[data-host]")) place.textContent = location.host;
  if (form) {
    form.addEventListener("submit", submit);
    at("reveal").addEventListener("click", reveal);
  }
  at("sign-out").addEventListener("click", leave);
  call("/api/auth/refresh").then((answer) => (answer.ok ? greet(answer) : offer()), offer);
})();
