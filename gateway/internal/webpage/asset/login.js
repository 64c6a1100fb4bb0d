// The sign-in page. The access token stays in the memory of this page. Every page gets its own token with
// the refresh cookie.
"use strict";
(() => {
  const at = (id) => document.getElementById(id);
  const form = at("password-form");
  // A path of this installation, which the server has checked.
  let next = at("sign-in").dataset.next;
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

  const setText = (id, text) => {
    at(id).textContent = text;
    at(id).hidden = !text;
  };

  const problem = (text) => setText("problem", text);

  const unreachable = "Signalbox cannot be reached. Check your connection and try again.";

  const seconds = (n) => (n === 1 ? "1 second" : n + " seconds");

  // sentence returns the message for a refused request; wrong is the message for a 401.
  const sentence = (response, wrong) => {
    if (response.status === 401) return wrong;
    if (response.status === 429) return "Too many attempts. Try again in " + seconds(Math.max(response.retry, 1)) + ".";
    const detail = Array.isArray(response.body.detail) && response.body.detail.length > 0 ? response.body.detail[0].msg : response.body.detail;
    if (response.status < 500 && typeof detail === "string") return detail.charAt(0).toUpperCase() + detail.slice(1) + ".";
    return "Signalbox cannot do this at the moment. Try again later.";
  };

  const proceed = () => {
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

  // greet continues after sign-in. A user with a temporary password must change it first.
  const greet = async (response, password) => {
    token = response.body.token;
    username = response.body.user.username;
    const profile = form && await call("/api/profile", null, "GET").catch(() => null);
    if (!profile || profile.body.code !== "password_change_required") {
      proceed();
      return;
    }
    at("change-username").value = username;
    at("present").value = password || "";
    at("present-field").hidden = Boolean(password);
    show("change");
    at("change-title").focus();
  };

  const flaw = () => {
    if (!at("present").value) return "Enter your current password.";
    if ([...at("fresh").value].length < 12) return "The new password needs at least 12 characters.";
    if (at("fresh").value === at("present").value) return "The new password must differ from the current one.";
    return at("fresh").value === at("repeat").value ? "" : "The new passwords do not match.";
  };

  const change = async (event) => {
    event.preventDefault();
    const button = at("change-submit");
    if (button.getAttribute("aria-disabled") === "true") return;
    const text = flaw();
    setText("change-problem", text);
    if (text) {
      at(at("present").value ? "fresh" : "present").focus();
      return;
    }
    button.setAttribute("aria-disabled", "true");
    try {
      const response = await call("/api/profile/password", { current_password: at("present").value, new_password: at("fresh").value });
      if (response.ok) {
        // The change has revoked all access tokens. Get a new one with the refresh cookie.
        token = "";
        const fresh = await call("/api/auth/refresh");
        at("change-form").reset();
        if (fresh.ok) {
          token = fresh.body.token;
          proceed();
        } else {
          offer();
        }
      } else {
        at("present-field").hidden = false;
        setText("change-problem", sentence(response, "The current password is incorrect."));
      }
    } catch {
      setText("change-problem", unreachable);
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

  const refused = (response) => {
    problem(sentence(response, "Wrong username or password."));
    const field = at("password");
    field.setAttribute("aria-invalid", String(response.status === 401));
    field.select();
    field.focus();
    if (response.status !== 429) return;
    // The button shows the remaining time, so that screen readers do not repeat the message every second.
    clearInterval(waiting);
    let left = Math.max(response.retry, 1);
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
      const response = await call("/api/auth/login", { username: name.value, password: password.value });
      busy(false);
      if (!response.ok) {
        refused(response);
        return;
      }
      const typed = password.value;
      password.value = "";
      await greet(response, typed);
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

  // end logs out. If the access token has expired, the session may still exist, so end gets a new token with the
  // refresh cookie and logs out again.
  const end = async () => {
    const response = await call("/api/auth/logout");
    if (response.status !== 401) return response;
    token = "";
    const fresh = await call("/api/auth/refresh");
    if (!fresh.ok) return fresh;
    token = fresh.body.token;
    return call("/api/auth/logout");
  };

  const leave = async () => {
    const response = await end().catch(() => null);
    if (!response || (!response.ok && response.status !== 401)) {
      at("who").textContent += " (sign-out failed, try again)";
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
  // linked returns the secret of a sign-in link and removes it from the address, so that neither the history nor a
  // copied address contains it.
  const linked = () => {
    const secret = new URLSearchParams(location.hash.slice(1)).get("link") || "";
    if (secret) history.replaceState(null, "", location.pathname + location.search);
    return secret;
  };

  const enter = async () => {
    const secret = linked();
    const used = secret ? await call("/api/auth/link", { link: secret }) : null;
    if (used && used.ok) {
      next = next || "/";
      await greet(used);
      return;
    }
    const session = await call("/api/auth/refresh");
    if (session.ok) {
      await greet(session);
      return;
    }
    offer();
    if (used) problem(sentence(used, "This sign-in link was already used or has expired. Run signalboxd link on the server for another one."));
  };

  enter().catch(offer);
})();
