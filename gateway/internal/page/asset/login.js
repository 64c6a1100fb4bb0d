// The sign-in page. The access token stays in this page's memory: what comes next begins with a refresh
// by the cookie, as every page does.
"use strict";
(() => {
  const at = (id) => document.getElementById(id);
  const form = at("password-form");
  // A path of this installation, which the server has checked.
  const next = at("sign-in").dataset.next;
  let token = "";
  let username = "";
  let waiting = 0;

  const call = async (path, body, method = "POST") => {
    const headers = {};
    if (body) headers["Content-Type"] = "application/json";
    if (token) headers.Authorization = "Bearer " + token;
    const response = await fetch(path, {
      method, headers, body: body ? JSON.stringify(body) : undefined,
      cache: "no-store", credentials: "same-origin", redirect: "error",
    });
    return {
      ok: response.ok, status: response.status, retry: Number(response.headers.get("Retry-After")) || 0,
      body: await response.json().catch(() => ({})),
    };
  };

  const show = (id) => {
    for (const other of ["sign-in", "change", "signed-in", "checking"]) {
      if (at(other)) at(other).hidden = other !== id;
    }
  };

  const tell = (id, text) => {
    at(id).textContent = text;
    at(id).hidden = !text;
  };

  const problem = (text) => tell("problem", text);

  const unreachable = "Signalbox cannot be reached. Check your connection and try again.";

  const seconds = (n) => (n === 1 ? "1 second" : n + " seconds");

  // what a refused sign-in tells the person.
  const sentence = (answer, wrong) => {
    if (answer.status === 401) return wrong;
    if (answer.status === 429) return "Too many attempts. Try again in " + seconds(Math.max(answer.retry, 1)) + ".";
    const detail = Array.isArray(answer.body.detail) && answer.body.detail.length > 0 ? answer.body.detail[0].msg : answer.body.detail;
    if (answer.status < 500 && typeof detail === "string") return detail.charAt(0).toUpperCase() + detail.slice(1) + ".";
    return "Signalbox cannot do this at the moment. Try again in a little while.";
  };

  const goOn = () => {
    if (next) {
      const to = new URL(next, location.origin);
      if (to.origin === location.origin) {
        token = "";
        location.replace(to);
        return;
      }
    }
    at("who").textContent = username;
    show("signed-in");
    at("signed-in-title").focus();
  };

  // greet goes on with who is signed in, once his password is his own.
  const greet = async (answer, password) => {
    token = answer.body.token;
    username = answer.body.user.username;
    const profile = form && await call("/api/profile", null, "GET").catch(() => null);
    if (!profile || profile.body.code !== "password_change_required") {
      goOn();
      return;
    }
    at("change-username").value = username;
    at("present").value = password || "";
    at("present-field").hidden = Boolean(password);
    show("change");
    at("change-title").focus();
  };

  const flaw = () => {
    if (!at("present").value) return "Enter your present password.";
    if ([...at("fresh").value].length < 12) return "The new password needs at least 12 characters.";
    if (at("fresh").value === at("present").value) return "The new password must be another one.";
    return at("fresh").value === at("repeat").value ? "" : "The new password was not the same both times.";
  };

  const change = async (event) => {
    event.preventDefault();
    const button = at("change-submit");
    if (button.getAttribute("aria-disabled") === "true") return;
    const text = flaw();
    tell("change-problem", text);
    if (text) {
      at(at("present").value ? "fresh" : "present").focus();
      return;
    }
    button.setAttribute("aria-disabled", "true");
    try {
      const answer = await call("/api/profile/password", { current_password: at("present").value, new_password: at("fresh").value });
      if (answer.ok) {
        // Every access token has ended with the old password; the session gives the next one.
        token = "";
        const fresh = await call("/api/auth/refresh");
        at("change-form").reset();
        if (fresh.ok) {
          token = fresh.body.token;
          goOn();
        } else {
          offer();
        }
      } else {
        at("present-field").hidden = false;
        tell("change-problem", sentence(answer, "The present password is wrong."));
      }
    } catch {
      tell("change-problem", unreachable);
    }
    button.setAttribute("aria-disabled", "false");
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
    problem(sentence(answer, "Wrong username or password."));
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
      const typed = password.value;
      password.value = "";
      await greet(answer, typed);
    } catch {
      busy(false);
      problem(unreachable);
    }
  };

  const reveal = () => {
    const hidden = at("password").type === "password";
    at("password").type = hidden ? "text" : "password";
    at("reveal").textContent = hidden ? "Hide" : "Show";
    at("reveal").setAttribute("aria-pressed", String(hidden));
  };

  // end logs out. An access token ends before its session does, which then goes on in the cookie: only a new
  // token can end it.
  const end = async () => {
    const answer = await call("/api/auth/logout");
    if (answer.status !== 401) return answer;
    token = "";
    const fresh = await call("/api/auth/refresh");
    if (!fresh.ok) return fresh;
    token = fresh.body.token;
    return call("/api/auth/logout");
  };

  const leave = async () => {
    const answer = await end().catch(() => null);
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
    at("change-form").addEventListener("submit", change);
  }
  at("sign-out").addEventListener("click", leave);
  call("/api/auth/refresh").then((answer) => (answer.ok ? greet(answer) : offer()), offer);
})();
