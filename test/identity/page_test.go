package identity_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/testenv"
)

// task is the input of the browser driver, and visit is its report.
type task struct {
	URL      string   `json:"url"`
	Chromium string   `json:"chromium"`
	Out      string   `json:"out"`
	Username string   `json:"username"`
	Password string   `json:"password"`
	Drawn    string   `json:"drawn"`
	Fresh    string   `json:"fresh"`
	Newcomer string   `json:"newcomer"`
	Approve  string   `json:"approve"`
	Deny     string   `json:"deny"`
	Look     string   `json:"look"`
	Link     string   `json:"link"`
	Else     []string `json:"elsewhere"`
}

type visit struct {
	Reports  []string            `json:"reports"`
	Console  []string            `json:"console"`
	Requests []string            `json:"requests"`
	Faults   map[string][]string `json:"faults"`
	Wide     []string            `json:"wide"`
	Kept     []leftover          `json:"kept"`
	Shown    shownPage           `json:"shown"`
}

type leftover struct {
	Local     map[string]string `json:"local"`
	Session   map[string]string `json:"session"`
	Cookie    string            `json:"cookie"`
	Databases int               `json:"databases"`
	Caches    []string          `json:"caches"`
	Workers   int               `json:"workers"`
	Name      string            `json:"name"`
	State     any               `json:"state"`
	HTML      string            `json:"html"`
	Cookies   []struct {
		Name     string `json:"name"`
		HTTPOnly bool   `json:"httpOnly"`
		SameSite string `json:"sameSite"`
		Path     string `json:"path"`
	} `json:"cookies"`
}

type shownPage struct {
	Empty, Wrong, WrongFocus, AfterLogin, Followed, Request, Spoken, DecideFocus, Approved, Again string
	LedTo, LedBack, Unknown, Failed, Changed, TooShort, Linked, LinkAgain, LinkGone               string
	Elsewhere, CookiesAfterSignOut                                                                []string
}

const browsing = 4 * time.Minute

// TestPagesInABrowser uses the pages in Chromium as users do: it signs in, approves and denies devices, and
// signs out.
func TestPagesInABrowser(t *testing.T) {
	s := testenv.Single(t, testenv.Options{Env: map[string]string{"SERVICE_AUTH_HASH_MEMORY_KIB": "64", "SERVICE_AUTH_HASH_ITERATIONS": "1"}})
	w := &web{t: t, url: s.URL}
	in := task{
		URL: s.URL, Chromium: w.tool("chromium.sh"), Out: screenshotFolder(t), Username: "admin", Password: s.Password.Reveal(), Else: foreignTargets(),
		Newcomer: "newcomer", Drawn: w.newcomer("newcomer", s.Password.Reveal()), Fresh: "a password of my own", Link: s.SignInLink(t.Context()),
	}
	codes := map[string]code{}
	for _, name := range []string{"approve", "deny", "look"} {
		codes[name] = w.device("terminal of " + name)
	}
	in.Approve, in.Deny, in.Look = codes["approve"].User, codes["deny"].User, codes["look"].User
	saw := w.drive(in)
	t.Run("sign-in", func(t *testing.T) { saw.signIn(t) })
	t.Run("sign-in link", func(t *testing.T) {
		require.Equal(t, s.URL+"/device", saw.Shown.Linked, "the link must lead to the requested page")
		require.Contains(t, saw.Shown.LinkAgain, "This sign-in link was already used or has expired.")
		require.Equal(t, s.URL+"/login?next=%2Fdevice", saw.Shown.LinkGone, "the address must not keep the secret of the link")
	})
	t.Run("devices", func(t *testing.T) { saw.devices(t, in, w, codes) })
	t.Run("nothing is left behind", func(t *testing.T) { saw.requireNothingStored(t, in) })
	t.Run("no requests to other origins", func(t *testing.T) { saw.requireNoOtherRequests(t, in) })
	t.Run("accessible", func(t *testing.T) {
		require.Empty(t, saw.Faults, "axe must find no accessibility violations")
		require.Empty(t, saw.Wide, "no page may scroll horizontally")
	})
	t.Run("no secrets in the log", func(t *testing.T) {
		log, err := os.ReadFile(filepath.Join(s.Dir, "signalboxd.log"))
		require.NoError(t, err)
		require.Contains(t, string(log), `/api/cli/device/requests/{user_code}`, "the log must contain the request")
		for _, secret := range []string{in.Approve, in.Deny, in.Look, strings.ReplaceAll(in.Deny, "-", ""), codes["approve"].Device, in.Drawn, in.Fresh, in.Link, "user_code="} {
			require.NotContains(t, string(log), secret)
		}
	})
}

// foreignTargets returns values of the query parameter next that the sign-in page must not follow.
func foreignTargets() []string {
	return []string{
		"//evil.example/", `/\evil.example`, `\\evil.example`, "https://evil.example/", "/\t/evil.example", "javascript:alert(1)", "/x/..//evil.example",
		"//evil.example\\@127.0.0.1/", "data:text/html,x", "/%2e%2e//evil.example",
	}
}

func (v *visit) signIn(t *testing.T) {
	t.Helper()
	require.Equal(t, "Enter your username and your password.", v.Shown.Empty)
	require.Equal(t, "Wrong username or password.", v.Shown.Wrong)
	require.Equal(t, "password", v.Shown.WrongFocus, "the focus must be on the password for the next try")
	require.Equal(t, "/login?next=//evil.example/", v.Shown.AfterLogin, "a foreign next address must be ignored")
	require.Empty(t, v.Shown.Elsewhere)
	require.Equal(t, "/device", v.Shown.Followed, "a path of this installation must be followed")
	require.Empty(t, v.Shown.CookiesAfterSignOut, "signing out must delete the cookie, even with an expired access token")
	require.Contains(t, v.Shown.Failed, "Sign-in failed")
	require.Contains(t, v.Shown.TooShort, "at least 12 characters")
	require.Equal(t, "/device", v.Shown.Changed, "after the temporary password is changed, the requested page must open")
}

func (v *visit) devices(t *testing.T, in task, w *web, codes map[string]code) {
	t.Helper()
	for _, fact := range []string{"terminal of approve", "127.0.0.1", "admin", "Approve only what you started yourself"} {
		require.Contains(t, v.Shown.Request, fact, "the page must show who requests access")
	}
	require.Equal(t, "Code: "+strings.Join(strings.Split(in.Approve, ""), " "), v.Shown.Spoken, "screen readers must spell the code")
	require.Equal(t, "decide-title", v.Shown.DecideFocus, "the focus must not be on a button, so that a key pressed early approves nothing")
	require.Contains(t, v.Shown.Approved, "terminal of approve is signed in as admin")
	require.NotEmpty(t, v.Shown.Again)
	require.Contains(t, v.Shown.Unknown, "No pending request has this code")
	require.Equal(t, "/login?next="+url.QueryEscape("/device?user_code="+grouped(in.Deny)), v.Shown.LedTo)
	require.Equal(t, "/device?user_code="+grouped(in.Deny), v.Shown.LedBack)

	status, token := w.poll(codes["approve"])
	require.Equal(t, http.StatusOK, status, token)
	me, _ := w.request(http.MethodGet, "/api/auth/me", nil, token["access_token"].(string))
	require.Equal(t, http.StatusOK, me, "the approved device must be signed in")
	status, refused := w.poll(codes["deny"])
	require.Equal(t, http.StatusBadRequest, status)
	require.Equal(t, "access_denied", refused["error"])
	status, waiting := w.poll(codes["look"])
	require.Equal(t, http.StatusBadRequest, status)
	require.Equal(t, "authorization_pending", waiting["error"], "opening or reloading the page must not approve or deny the device")
}

// grouped returns a code in the format that the page uses in its URL.
func grouped(code string) string { return strings.ToUpper(strings.ReplaceAll(code, "-", "")) }

func (v *visit) requireNothingStored(t *testing.T, in task) {
	t.Helper()
	require.NotEmpty(t, v.Kept)
	for _, k := range v.Kept {
		require.Empty(t, k.Local)
		require.Empty(t, k.Session)
		require.Empty(t, k.Cookie, "scripts must not see the session cookie")
		require.Empty(t, k.Caches)
		require.Empty(t, k.Name)
		require.Nil(t, k.State)
		require.Zero(t, k.Databases+k.Workers)
		require.NotContains(t, k.HTML, "eyJ", "the page must not contain a token, which begins with eyJ")
		require.NotContains(t, k.HTML, in.Password)
		require.NotContains(t, k.HTML, in.Link)
		require.Len(t, k.Cookies, 1)
		require.True(t, k.Cookies[0].HTTPOnly)
		require.Equal(t, "Strict", k.Cookies[0].SameSite)
	}
}

func (v *visit) requireNoOtherRequests(t *testing.T, in task) {
	t.Helper()
	require.Empty(t, v.Reports, "the pages must not violate their content security policy")
	for _, line := range v.Console {
		// The console may show only the error responses that the pages handle, and the 501 of the OIDC callback,
		// because OIDC is not configured here.
		require.Regexp(t, `^Failed to load resource: the server responded with a status of (4\d\d|501) `, line, "the console must show no script errors")
	}
	require.Greater(t, len(v.Requests), 40)
	for _, r := range v.Requests {
		_, at, _ := strings.Cut(r, " ")
		require.True(t, strings.HasPrefix(at, in.URL+"/"), r)
		require.NotContains(t, at, "eyJ")
		require.NotContains(t, at, in.Password)
		require.NotContains(t, at, url.QueryEscape(in.Fresh))
	}
}

// web sends requests to the installation without a browser, and runs the browser.
type web struct {
	t   *testing.T
	url string
}

// request sends a JSON request. It returns the status and the members of the response.
func (w *web) request(method, path string, body any, token string) (int, map[string]any) {
	w.t.Helper()
	var sent io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		require.NoError(w.t, err)
		sent = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.url+path, sent)
	require.NoError(w.t, err)
	req.Header.Set("Content-Type", "application/json")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(w.t, err)
	defer func() { _ = resp.Body.Close() }()
	var out map[string]any
	require.NoError(w.t, json.NewDecoder(resp.Body).Decode(&out), path)
	return resp.StatusCode, out
}

// newcomer creates an account with a temporary password as admin, and returns the password.
func (w *web) newcomer(name, admin string) string {
	w.t.Helper()
	status, in := w.request(http.MethodPost, "/api/auth/login", map[string]any{"username": "admin", "password": admin}, "")
	require.Equal(w.t, http.StatusOK, status, in)
	status, made := w.request(http.MethodPost, "/api/admin/users", map[string]any{"username": name, "role": "operator"}, in["token"].(string))
	require.Equal(w.t, http.StatusCreated, status, made)
	return made["password"].(string)
}

type code struct{ Device, User string }

// device starts a device flow as a command-line client would.
func (w *web) device(client string) code {
	w.t.Helper()
	status, got := w.request(http.MethodPost, "/api/cli/device/code", map[string]any{"client_name": client}, "")
	require.Less(w.t, status, 300, got)
	return code{got["device_code"].(string), got["user_code"].(string)}
}

func (w *web) poll(c code) (int, map[string]any) {
	w.t.Helper()
	return w.request(http.MethodPost, "/api/cli/device/token", map[string]any{"device_code": c.Device}, "")
}

// tool returns what testenv.Tool does.
func (w *web) tool(name string, args ...string) string {
	w.t.Helper()
	return testenv.Tool(w.t.Context(), w.t, name, args...)
}

// drive runs the browser and returns its report. It passes the task on standard input, because any user can
// read arguments.
func (w *web) drive(in task) *visit {
	w.t.Helper()
	folder := filepath.Join(testenv.Root(w.t), "test", "identity", "page")
	ctx, cancel := context.WithTimeout(w.t.Context(), browsing)
	defer cancel()
	cmd := exec.CommandContext(ctx, w.tool("node.sh"), filepath.Join(folder, "drive.mjs"))
	cmd.Env = append(os.Environ(), "NODE_MODULES="+w.tool("npm.sh", folder))
	input, err := json.Marshal(in)
	require.NoError(w.t, err)
	cmd.Stdin = bytes.NewReader(input)
	var failed bytes.Buffer
	cmd.Stderr = &failed
	out, err := cmd.Output()
	require.NoError(w.t, err, failed.String())
	saw := &visit{}
	require.NoError(w.t, json.Unmarshal(out, saw), string(out))
	return saw
}

// screenshotFolder returns the folder for screenshots: the value of PICTURES, or a temporary folder if PICTURES is
// not set.
func screenshotFolder(t *testing.T) string {
	t.Helper()
	if dir := os.Getenv("PICTURES"); dir != "" {
		return dir
	}
	return t.TempDir()
}
