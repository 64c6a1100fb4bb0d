package guide

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/client"
	"github.com/signalbox-dev/signalbox/test/draw"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

var (
	subcommand = regexp.MustCompile(`(?m)^signalbox ((?:[a-z]+ ?){1,2})`)
	longFlag   = regexp.MustCompile(` (--[a-z-]+)`)
)

// requireCommands requires that the commands of the guide exist, with their flags.
func requireCommands(t *testing.T) {
	t.Helper()
	bin := testenv.Bin(t, "signalbox")
	for _, b := range guideBlocks(t, "fine-tune") {
		for line := range strings.SplitSeq(strings.ReplaceAll(b.commands, "\\\n", ""), "\n") {
			words := subcommand.FindStringSubmatch(line)
			if words == nil {
				continue
			}
			args := strings.Fields(words[1])
			help, err := exec.CommandContext(t.Context(), bin, append(args, "--help")...).CombinedOutput()
			require.NoError(t, err, line)
			for _, flag := range longFlag.FindAllStringSubmatch(line, -1) {
				if flag[1] != "--columns" { // a flag of all commands
					require.Contains(t, string(help), flag[1]+" ", line)
				}
			}
		}
	}
}

// fineTuneLimit is the time limit of one block of the guide. The first job and the first engine install PyTorch.
const fineTuneLimit = 15 * time.Minute

// TestFineTune requires that the commands of the guide on fine-tuning exist. `make test-long` also follows it: an adapter is trained from a tiny base, paused, resumed after all
// processes were killed, merged, served by both engines with the same response, and loaded with plain PEFT. The
// environments have 5 GB each, so `make test` leaves this out.
func TestFineTune(t *testing.T) {
	t.Parallel()
	requireCommands(t)
	if draw.Whole() {
		followFineTune(t)
	}
}

func followFineTune(t *testing.T) {
	t.Helper()
	root := testenv.Root(t)
	python := testenv.Tool(t.Context(), t, "venv.sh", "training", filepath.Join(root, "recipes/sft/lora/requirements.lock"),
		filepath.Join(root, "recipes/demo/chat-tiny/tests/requirements-test.lock"))
	s := testenv.Single(t, testenv.Options{})
	g := &follower{t: t, s: s, dir: t.TempDir(), python: python}
	g.signIn()
	g.run(python + " " + filepath.Join(root, "recipes/testing/tiny_base.py") + " base")
	for _, b := range guideBlocks(t, "fine-tune") {
		before, after, paused := strings.Cut(b.commands, "signalbox jobs resume")
		if !paused {
			g.check(b, g.run(b.commands))
			continue
		}
		g.run(before)
		testenv.KillAll(t, s)
		testenv.StartAll(s)
		g.check(b, g.run("signalbox jobs resume"+after))
	}
	g.checkCurve()
	g.checkAdapter()
}

// follower runs commands as a user does.
type follower struct {
	t           *testing.T
	s           *testenv.Installation
	dir, python string
	env         []string
}

func (g *follower) signIn() {
	g.t.Helper()
	var in struct {
		Token string `json:"token"`
	}
	body := map[string]string{"username": "admin", "password": g.s.Password.Reveal()}
	require.NoError(g.t, client.New(g.s.URL, nil).Post(g.t.Context(), "/api/auth/login", body, &in))
	path := filepath.Dir(testenv.Bin(g.t, "signalbox")) + string(filepath.ListSeparator) + os.Getenv("PATH")
	g.env = append(os.Environ(), "HOME="+g.dir, "PATH="+path, "SERVICE_SERVER="+g.s.URL, "SERVICE_TOKEN="+in.Token,
		"DBUS_SESSION_BUS_ADDRESS=disabled:", "OMP_NUM_THREADS=1", "HF_HUB_OFFLINE=1")
}

// run runs commands in the folder of the user and returns what they print.
func (g *follower) run(commands string) string {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(g.t.Context(), fineTuneLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", commands)
	cmd.Dir, cmd.Env = g.dir, g.env
	var errOut strings.Builder
	cmd.Stderr = &errOut
	began := time.Now()
	out, err := cmd.Output()
	g.t.Logf("%.1f s: %s%s%s", time.Since(began).Seconds(), commands, out, &errOut)
	require.NoError(g.t, err, "%s%s", commands, g.s.Tail())
	return string(out)
}

func (g *follower) check(b guideBlock, out string) {
	g.t.Helper()
	for _, line := range b.prints {
		pattern := "(?m)^" + strings.ReplaceAll(regexp.QuoteMeta(line), "…", ".*") + "$"
		require.Regexp(g.t, pattern, out, b.place)
	}
}

// checkCurve requires that the loss fell to a tenth, and that the run has each of its steps once although it was paused.
func (g *follower) checkCurve() {
	g.t.Helper()
	out := g.run(`signalbox runs export colors --key train/loss | ` + g.python + ` -c '
import csv, sys
points = list(csv.DictReader(sys.stdin))
steps = [int(p["step"]) for p in points]
assert steps == sorted(set(steps)), steps
first, last = float(points[0]["value"]), float(points[-1]["value"])
print(f"loss {first:.4f} at step {steps[0]}, {last:.4f} at step {steps[-1]}")
assert last < first / 10, (first, last)'`)
	require.Contains(g.t, out, "loss")
}

// checkAdapter requires that the adapter that was pulled, loaded with plain PEFT on the base, has the logits of the merged
// model that was registered.
func (g *follower) checkAdapter() {
	g.t.Helper()
	g.run("signalbox models pull colors@1 --dir merged")
	g.run(g.python + ` -c '
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer
adapted = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained("base"), "adapter")
merged = AutoModelForCausalLM.from_pretrained("merged", dtype=torch.float32)
tokens = AutoTokenizer.from_pretrained("merged").apply_chat_template(
    [{"role": "user", "content": "color 42?"}], add_generation_prompt=True, return_tensors="pt", return_dict=True)
with torch.no_grad():
    difference = (adapted(**tokens).logits - merged(**tokens).logits).abs().max().item()
print("largest difference of the logits:", difference)
assert difference < 1e-4, difference'`)
}
