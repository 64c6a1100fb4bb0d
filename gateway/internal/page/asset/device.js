// The page on which a signed-in person decides whether a device that shows a code is let in. Looking
// changes nothing; the decision is one POST with the access token, which stays in this page's memory.
"use strict";
(() => {
  const at = (id) => document.getElementById(id);
  const sections = ["ask", "decide", "done", "broken", "checking"];
  let session = null; // {token, user}
  let request = null;
  let clock = 0;
  let skew = 0; // the server's time less this machine's

  const now = () => Date.now() + skew;

  const show = (id) => {
    for (const other of sections) at(other).hidden = other !== id;
    const title = at(id + "-title");
    if (title) title.focus();
  };

  const tell = (id, text) => {
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

  // enter takes up the session that the cookie stands for, or leads to the sign-in and back here.
  const enter = async () => {
    session = null;
    const answer = await send("POST", "/api/auth/refresh");
    if (answer.ok) {
      session = { token: answer.body.token, user: answer.body.user.username };
      return true;
    }
    if (answer.status !== 401) throw new Error("refresh: " + answer.status);
    signIn();
    return false;
  };

  // call asks as the person; an access token that has ended is renewed once.
  const call = async (method, path, body) => {
    let answer = await send(method, path, body);
    if (answer.status === 401) {
      if (!(await enter())) return new Promise(() => {}); // this page is being left
      answer = await send(method, path, body);
    }
    return answer;
  };

  const broken = (retry) => {
    at("broken-lead").textContent = "Check your connection, or try again in a little while.";
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

  const ask = (text) => {
    tell("ask-problem", text || "");
    at("code").setAttribute("aria-invalid", String(Boolean(text)));
    show("ask");
    at("code").focus();
  };

  const again = (text) => {
    request = null;
    ask(text);
  };

  const offer = () => {
    tiles(request.user_code);
    at("account").textContent = session.user;
    at("client").textContent = request.client_name;
    at("address").textContent = request.client_address || "unknown";
    tell("decide-problem", "");
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
      : "Nothing was let in. You can close this page.";
    show("done");
  };

  // own leads to where a password that was drawn for the person is changed, and back here.
  const own = (answer) => {
    if (answer.body.code !== "password_change_required") return false;
    signIn();
    return true;
  };

  const refusal = (answer) => {
    if (answer.status === 404 || answer.status === 422) return "No request waits with this code. Check it against your terminal; codes end after a few minutes.";
    if (answer.status === 429) return "Too many attempts. Try again in " + Math.max(answer.retry, 1) + " s.";
    const detail = answer.body.detail;
    if (answer.status < 500 && typeof detail === "string") return detail.charAt(0).toUpperCase() + detail.slice(1) + ".";
    return "";
  };

  const look = async (code) => {
    try {
      const answer = await call("GET", path(code));
      if (own(answer)) return;
      const text = answer.ok ? "" : refusal(answer);
      if (!answer.ok && !text) throw new Error("look: " + answer.status);
      if (!answer.ok) {
        again(text);
        return;
      }
      request = answer.body;
      if (request.state === "pending") offer();
      else again("This request has been decided already: " + request.state + ".");
    } catch {
      broken(() => look(code));
    }
  };

  const decide = async (decision) => {
    const buttons = [at("approve"), at("deny")];
    if (buttons[0].getAttribute("aria-disabled") === "true") return;
    for (const b of buttons) b.setAttribute("aria-disabled", "true");
    tell("decide-problem", "");
    try {
      const answer = await call("POST", path(request.user_code), { decision });
      if (answer.ok) {
        request = answer.body;
        done();
      } else if (answer.status === 404 || answer.status === 409) {
        again(refusal(answer));
      } else {
        tell("decide-problem", refusal(answer) || "The decision was not taken. Try again.");
      }
    } catch {
      tell("decide-problem", "Signalbox cannot be reached. The decision may not have been taken; try again.");
    }
    for (const b of buttons) b.setAttribute("aria-disabled", "false");
  };

  const begin = async () => {
    try {
      if (!(await enter())) return;
      const code = grouped(at("ask").dataset.code);
      at("code").value = code;
      if (code) await look(code);
      else ask();
    } catch {
      broken(begin);
    }
  };

  for (const place of document.querySelectorAll("[data-host]")) place.textContent = location.host;
  at("code-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const code = grouped(at("code").value);
    at("code").value = code;
    if (code.length < 8) ask("The code has eight letters, as your terminal shows them.");
    else look(code);
  });
  at("approve").addEventListener("click", () => decide("approve"));
  at("deny").addEventListener("click", () => decide("deny"));
  begin();
})();
