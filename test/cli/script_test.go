package cli

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/signalbox-dev/signalbox/test/fixtures"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

var update = flag.Bool("update", false, "replace the transcripts in the scripts by what the commands print")

// scripts returns the parameters for the scripts of a folder. A script runs commands with `run`, `fails` and `let`,
// which write what happens to the file transcript, and compares this file with the one in its archive:
//
//	run ARGUMENT...          runs signalbox, which must succeed
//	fails STATUS ARGUMENT... runs signalbox, which must exit with the status
//	let NAME ARGUMENT...     sets a variable to the standard output of signalbox, without a line in the transcript
//	await TEXT ARGUMENT...   runs signalbox until its standard output is the text, without a line in the transcript
//	as USER                  is who runs the next commands: admin, ada, or none without a login
//	at PLACE                 is the server of the next commands: up, away for an address where nothing listens, or none
//	install MODE FILE TEXT   writes a file
//	weights FILE NAME        writes a model file with a valid header that contains a name
//	signup USER FILE         creates a user and writes a token to a file
//
// Each script has a project of its own, with its name, which the commands use. Ada is an editor of it.
func (w *world) scripts(dir string) testscript.Params {
	return testscript.Params{
		Dir: dir, UpdateScripts: *update,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"run": w.cmdRun, "fails": w.cmdFails, "let": w.cmdLet, "await": w.cmdAwait, "as": w.cmdAs, "at": w.cmdAt, "install": cmdInstall, "weights": cmdWeights, "signup": w.cmdSignUp,
		},
		Setup: func(env *testscript.Env) error {
			name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(env.WorkDir), "script-"), ".txtar")
			if err := w.makeProject(name); err != nil {
				return err
			}
			env.Vars = append(plainEnv(env.WorkDir), w.signedIn("admin")...)
			env.Setenv("WORK", env.WorkDir)
			env.Setenv("SERVICE_PROJECT", name)
			env.Setenv("PROJECT", name)
			env.Setenv("ENGINE", fixtures.Engine()[2])
			env.Setenv("NODE", w.ghost)
			env.Setenv("SERVER", w.URL)
			env.Setenv("ADMIN_TOKEN", w.tokens["admin"].Reveal())
			return nil
		},
	}
}

func (w *world) cmdAs(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: as USER")
	}
	token, known := w.tokens[args[0]]
	if !known && args[0] != "none" {
		ts.Fatalf("unknown user %s", args[0])
	}
	ts.Setenv("SERVICE_TOKEN", token.Reveal())
}

func (w *world) cmdAt(ts *testscript.TestScript, neg bool, args []string) {
	places := map[string]string{"up": w.URL, "away": w.away, "none": ""}
	if neg || len(args) != 1 {
		ts.Fatalf("usage: at PLACE")
	}
	address, known := places[args[0]]
	if !known {
		ts.Fatalf("unknown place %s", args[0])
	}
	ts.Setenv("SERVICE_SERVER", address)
}

func (w *world) cmdRun(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("use: fails STATUS ARGUMENT...")
	}
	w.record(ts, 0, args)
}

func (w *world) cmdFails(ts *testscript.TestScript, neg bool, args []string) {
	status, err := strconv.Atoi(args[0])
	if neg || err != nil || status == 0 {
		ts.Fatalf("usage: fails STATUS ARGUMENT...")
	}
	w.record(ts, status, args[1:])
}

func (w *world) cmdLet(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: let NAME ARGUMENT...")
	}
	if err := ts.Exec(w.bin, args[1:]...); err != nil {
		ts.Fatalf("signalbox %q: %v", args[1:], err)
	}
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile("stdout")))
}

func (w *world) cmdAwait(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: await TEXT ARGUMENT...")
	}
	const every = 50 * time.Millisecond
	for end := time.Now().Add(testenv.StageTimeout); ; time.Sleep(every) {
		err := ts.Exec(w.bin, args[1:]...)
		got := strings.TrimSpace(ts.ReadFile("stdout"))
		if err == nil && got == args[0] {
			return
		}
		if time.Now().After(end) {
			ts.Fatalf("signalbox %q prints %q, not %q", args[1:], got, args[0])
		}
	}
}

// cmdInstall writes a file whose content is a variable, with a mode.
func cmdInstall(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: install MODE FILE TEXT")
	}
	mode, err := strconv.ParseUint(args[0], 8, 32)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(args[2]), os.FileMode(mode)))
}

// cmdWeights writes a model file, whose format is that of its extension.
func cmdWeights(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: weights FILE NAME")
	}
	data := fixtures.Safetensors(args[1])
	if filepath.Ext(args[0]) == ".gguf" {
		data = fixtures.GGUF(args[1])
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), data, 0o600))
}

// cmdSignUp creates a user and writes an access token of the user to a file.
func (w *world) cmdSignUp(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: signup USER FILE")
	}
	password := "a good password of " + args[0]
	ts.Check(w.admin.Post(w.ctx, "/api/admin/users", map[string]any{"username": args[0], "role": "operator", "password": password}, nil))
	token, err := w.newToken(w.ctx, args[0], password)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(token.Reveal()), 0o600))
}

// record runs signalbox and appends what it was given and what it printed to the transcript.
func (w *world) record(ts *testscript.TestScript, want int, args []string) {
	err := ts.Exec(w.bin, args...)
	status := 0
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		status = failed.ExitCode()
	} else {
		ts.Check(err)
	}
	var b strings.Builder
	b.WriteString("$ signalbox")
	for _, arg := range args {
		b.WriteString(" " + quoted(ts, arg))
	}
	line := anyID.ReplaceAllString(strings.ReplaceAll(b.String(), w.URL, "$SERVER"), "${1}_xxxxxxxxxxxxxxxxxxxxxxxxxx")
	b.Reset()
	b.WriteString(line + "\n" + w.normal(ts, shortened(ended(ts.ReadFile("stdout")))))
	for line := range strings.Lines(w.normal(ts, ended(ts.ReadFile("stderr")))) {
		b.WriteString("! " + line)
	}
	if status != 0 {
		fmt.Fprintf(&b, "= %d\n", status)
	}
	f, err := os.OpenFile(ts.MkAbs("transcript"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	ts.Check(err)
	_, err = f.WriteString(b.String())
	ts.Check(errors.Join(err, f.Close()))
	if status != want {
		ts.Fatalf("signalbox %q: the exit status is %d, not %d", args, status, want)
	}
}

// quoted returns an argument as a shell would need it.
func quoted(ts *testscript.TestScript, arg string) string {
	switch {
	case arg == ts.Getenv("ENGINE"):
		return "$ENGINE"
	case arg == "" || strings.ContainsAny(arg, " \n'\"$|&;<>()[]*?!"):
		return "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
	}
	return arg
}

// shortened returns the first lines of a text that is too long to be read in a transcript.
func shortened(text string) string {
	const most, kept = 60, 3
	lines := strings.SplitAfter(text, "\n")
	if len(lines) <= most {
		return text
	}
	return strings.Join(lines[:kept], "") + "[and more than fifty lines]\n"
}

func ended(text string) string {
	if text == "" || strings.HasSuffix(text, "\n") {
		return text
	}
	return text + "\n"
}

// What differs from run to run. Placeholders are as long as what they replace, so that tables stay straight.
var (
	anyID      = regexp.MustCompile(`\b([a-z]+)_0[0-9a-hjkmnp-tv-z]{25}\b`)
	anyTime    = regexp.MustCompile(`20\d\d-\d\d-\d\d([ T])\d\d:\d\d:\d\d(\.\d+)?(Z|\+\d\d:\d\d)?`)
	anyKey     = regexp.MustCompile(`the access key \S{16} signs`)
	anyMinute  = regexp.MustCompile(`20\d\d-\d\d-\d\d \d\d:\d\d\b`)
	anyClock   = regexp.MustCompile(`\b\d\d:\d\d:\d\d\.\d{3}\b`)
	memberAge  = regexp.MustCompile(`(?m)^(age|seen) +\d+[smhd]$`)
	columnAge  = regexp.MustCompile(`(?m) {2,}\d+[smhd]$`)
	anySpan    = regexp.MustCompile(`valid for \d+[smhd](\d+[smhd])?`)
	anyTook    = regexp.MustCompile(`\b\d+ ms\b`)
	anyDigest  = regexp.MustCompile(`sha256:[0-9a-f]+`)
	anySecret  = regexp.MustCompile(`\b(dtk|shr|fjt|ing)_[0-9A-Za-z]{40,}\b`)
	anyFirst   = regexp.MustCompile(`(?m)^[0-9A-Za-z_-]{24}$`) // a temporary password
	anyVersion = regexp.MustCompile(`\bdev(-[0-9a-f]{12})?\b`)
	compared   = regexp.MustCompile(`(?m)^versions  (ok|warning)( +)this program`)
	anyWait    = regexp.MustCompile(`(?m)^job .* waits: .*\n`) // whether there is room depends on the other scripts
	anyRequest = regexp.MustCompile(`"request_id":"[^"]+"`)
)

// normal returns what a command has printed without what differs from run to run.
func (w *world) normal(ts *testscript.TestScript, text string) string {
	host := func(url string) string { return strings.TrimPrefix(url, "http://") }
	text = strings.NewReplacer(ts.Getenv("WORK"), "WORK", host(w.URL), "signalbox:12345", host(w.away), "nowhere-at:1234", w.version, "VERSION").Replace(text)
	text = anyID.ReplaceAllString(text, "${1}_xxxxxxxxxxxxxxxxxxxxxxxxxx")
	text = anyTime.ReplaceAllString(text, "2026-01-31${1}10:00:00${3}")
	text = anyKey.ReplaceAllString(text, "the access key KID signs")
	text = anyMinute.ReplaceAllString(text, "2026-01-31 10:00")
	text = anyClock.ReplaceAllString(text, "10:00:00.000")
	text = memberAge.ReplaceAllString(text, "$1  AGE")
	text = columnAge.ReplaceAllStringFunc(text, func(age string) string { return strings.Repeat(" ", len(age)-len("AGE")) + "AGE" })
	text = anySpan.ReplaceAllString(text, "valid for SPAN")
	text = anyTook.ReplaceAllString(text, "N ms")
	text = anyDigest.ReplaceAllString(text, "sha256:xxxx")
	text = anySecret.ReplaceAllString(text, "${1}_SECRET")
	text = anyFirst.ReplaceAllString(text, "PASSWORD")
	text = compared.ReplaceAllString(text, "versions  compared${2}this program")
	text = anyVersion.ReplaceAllString(text, "VERSION")
	text = anyWait.ReplaceAllString(text, "")
	return anyRequest.ReplaceAllString(text, `"request_id":"ID"`)
}
