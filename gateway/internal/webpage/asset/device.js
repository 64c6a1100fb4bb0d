// The page on which a signed-in user approves or denies a device that shows a code. Viewing a request
// changes nothing; the decision is one POST with the access token, which stays in the memory of this page.
"use strict";
(() => {
  const at = (id) => document.getElementById(id);
  const sections = ["ask", "decide", "done", "broken", "checking"];
  let session = null; // {token, user}
  let request = null;
  let clock = 0;
  let skew = 0; // the server's time minus the time of this machine

  const now = () => Date.now() + skew;

  const show = (id) => {
    for (const other of sections) at(other).hidden = other !== id;
    const title = at(id + "-title");
    if (title) title.focus();
  };

  const setText = (id, text) => {
    at(id).textContent = text;
    at(id).hidden = !text;
  };

  const send = async (method, path, body) => {
    const headers = {};
    if (body) headers["Content-Type"] = "application/json";
    if (session) headers.Authorization = "Bearer " + session.token;
    const response = await fetch(path, {
      method, headers, body: body ? JSON.stringify(body) : undefined,
      cache: "no-store", credentials: "same-origin", redirect: "error",
    });
    skew = (Date.parse(response.headers.get("Date")) || Date.now()) - Date.now();
    return {
      ok: response.ok, status: response.status, retry: Number(response.headers.get("Retry-After")) || 0,
      body: await response.json().catch(() => ({})),
    };
  };

  const signIn = () => {
    const code = at("code").value || at("ask").dataset.code;
    const back = "/device" + (code ? "?user_code=" + encodeURIComponent(code) : "");
    location.replace("/login?next=" + encodeURIComponent(back));
  };

  // enter resumes the session of the refresh cookie and returns true. If there is no session, it opens the
  // sign-in page, which returns to this page, and returns false.
  const enter = async () => {
    session = null;
    const response = await send("POST", "/api/auth/refresh");
    if (response.ok) {
      session = { token: response.body.token, user: response.body.user.username };
      return true;
    }
    if (response.status !== 401) throw new Error("refresh: " + response.status);
    signIn();
    return false;
  };

  // call sends a request with the access token. If the response is 401, call gets a new token and repeats the request
  // once.
  const call = async (method, path, body) => {
    let response = await send(method, path, body);
    if (response.status === 401) {
      if (!(await enter())) return new Promise(() => {}); // the browser is leaving this page
      response = await send(method, path, body);
    }
    return response;
  };

  const broken = (retry) => {
    at("broken-lead").textContent = "Check your connection, or try again later.";
    at("retry").onclick = () => { show("checking"); retry(); };
    show("broken");
  };

  const grouped = (text) => {
    const plain = text.toUpperCase().replace(/[^A-Z0-9]/g, "");
    return plain.length === 8 ? plain.slice(0, 4) + "-" + plain.slice(4) : plain;
  };

  const path = (code) => "/api/cli/device/requests/" + encodeURIComponent(code);

  const since = (then) => {
    const s = Math.max(0, Math.round((now() - then) / 1000));
    if (s < 10) return "just now";
    if (s < 60) return s + " seconds ago";
    const m = Math.floor(s / 60);
    return m === 1 ? "1 minute ago" : m + " minutes ago";
  };

  const left = (until) => {
    const s = Math.max(0, Math.ceil((until - now()) / 1000));
    return "in " + Math.floor(s / 60) + ":" + String(s % 60).padStart(2, "0");
  };

  const tick = () => {
    const [created, expires] = [Date.parse(request.created_at), Date.parse(request.expires_at)];
    at("asked").textContent = since(created) + ", " + new Date(created).toLocaleTimeString([], { timeStyle: "short" });
    at("expires").textContent = left(expires);
    if (now() < expires) return;
    clearInterval(clock);
    again("This code has expired. Start again in your terminal to get a new one.");
  };

  const tiles = (code) => {
    const out = [];
    for (const letter of code) {
      const tile = document.createElement("span");
      if (letter === "-") tile.className = "gap";
      else tile.textContent = letter;
      out.push(tile);
    }
    at("tiles").replaceChildren(...out);
    at("spoken-code").textContent = "Code: " + Array.from(code).join(" ");
  };

  const askForCode = (text) => {
    setText("ask-problem", text || "");
    at("code").setAttribute("aria-invalid", String(Boolean(text)));
    show("ask");
    at("code").focus();
  };

  const again = (text) => {
    request = null;
    askForCode(text);
  };

  const offer = () => {
    tiles(request.user_code);
    at("account").textContent = session.user;
    at("client").textContent = request.client_name;
    at("address").textContent = request.client_address || "unknown";
    setText("decide-problem", "");
    clearInterval(clock);
    clock = setInterval(tick, 1000);
    show("decide");
    tick();
  };

  const done = () => {
    clearInterval(clock);
    const approved = request.state === "approved";
    at("mark").className = approved ? "mark" : "mark no";
    at("done-title").textContent = approved ? "Device connected" : "Request denied";
    at("done-lead").textContent = approved
      ? request.client_name + " is signed in as " + session.user + ". You can close this page and go back to your terminal."
      : "The device was not signed in. You can close this page.";
    show("done");
  };

  // leavesForPassword returns whether the user must first change a temporary password. If so, it opens the sign-in
  // page, which returns to this page.
  const leavesForPassword = (response) => {
    if (response.body.code !== "password_change_required") return false;
    signIn();
    return true;
  };

  const refusal = (response) => {
    if (response.status === 404 || response.status === 422) return "No pending request has this code. Compare it with your terminal; codes expire after a few minutes.";
    if (response.status === 429) return "Too many attempts. Try again in " + Math.max(response.retry, 1) + " s.";
    const detail = response.body.detail;
    if (response.status < 500 && typeof detail === "string") return detail.charAt(0).toUpperCase() + detail.slice(1) + ".";
    return "";
  };

  const look = async (code) => {
    try {
      const response = await call("GET", path(code));
      if (leavesForPassword(response)) return;
      const text = response.ok ? "" : refusal(response);
      if (!response.ok && !text) throw new Error("look: " + response.status);
      if (!response.ok) {
        again(text);
        return;
      }
      request = response.body;
      if (request.state === "pending") offer();
      else again("This request has already been decided: " + request.state + ".");
    } catch {
      broken(() => look(code));
    }
  };

  const decide = async (decision) => {
    const buttons = [at("approve"), at("deny")];
    if (buttons[0].getAttribute("aria-disabled") === "true") return;
    for (const b of buttons) b.setAttribute("aria-disabled", "true");
    setText("decide-problem", "");
    try {
      const response = await call("POST", path(request.user_code), { decision });
      if (response.ok) {
        request = response.body;
        done();
      } else if (response.status === 404 || response.status === 409) {
        again(refusal(response));
      } else {
        setText("decide-problem", refusal(response) || "The decision was not saved. Try again.");
      }
    } catch {
      setText("decide-problem", "Signalbox cannot be reached. The decision may not have been saved; try again.");
    }
    for (const b of buttons) b.setAttribute("aria-disabled", "false");
  };

  const begin = async () => {
    try {
      if (!(await enter())) return;
      const code = grouped(at("ask").dataset.code);
      at("code").value = code;
      if (code) await look(code);
      else askForCode();
    } catch {
      broken(begin);
    }
  };

  for (const place of document.querySelectorAll("[data-host]")) place.textContent = location.host;
  at("code-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const code = grouped(at("code").value);
    at("code").value = code;
    if (code.length < 8) askForCode("Enter the eight letters of the code that your terminal shows.");
    else look(code);
  });
  at("approve").addEventListener("click", () => decide("approve"));
  at("deny").addEventListener("click", () => decide("deny"));
  begin();
})();
