package demo

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/rpc/pki"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// password is the password of the first admin. The first run generates it and saves it in the data folder.
type password struct {
	text  secret.String
	file  string
	fresh bool
}

func (p password) note() string {
	if p.fresh {
		return "generated for this installation, saved in " + p.file
	}
	return "from the first run, saved in " + p.file
}

// keepPassword generates the password at the first run. Later runs on the same data reuse it.
func keepPassword(data string) (password, error) {
	file, err := filepath.Abs(filepath.Join(data, "demo-password"))
	if err != nil {
		return password{}, fmt.Errorf("find the data folder: %w", err)
	}
	kept, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return password{}, fmt.Errorf("read the password: %w", err)
	}
	if text := strings.TrimSpace(string(kept)); text != "" {
		return password{text: secret.New(text), file: file}, nil
	}
	var raw [15]byte
	if _, err := rand.Read(raw[:]); err != nil {
		return password{}, fmt.Errorf("generate a password: %w", err)
	}
	text := base64.RawURLEncoding.EncodeToString(raw[:])
	if err := pki.WriteFile(file, []byte(text+"\n")); err != nil {
		return password{}, fmt.Errorf("save the password: %w", err)
	}
	return password{text: secret.New(text), file: file, fresh: true}, nil
}

// server is signalboxd as a child process of the demo.
type server struct {
	Address string `json:"address"`

	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
	log  string
	// grace is how long the server may take to shut down.
	grace time.Duration
}

const (
	startTimeout = 60 * time.Second
	stopTimeout  = 10 * time.Second
	readyEvery   = 50 * time.Millisecond
)

// start runs signalboxd and waits until it serves. The caller holds the lock on the data folder.
func start(ctx context.Context, o Options, passwordFile string) (*server, error) {
	ready := filepath.Join(o.Data, "ready.json")
	if err := os.Remove(ready); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("remove the ready file of the last start: %w", err)
	}
	s := &server{done: make(chan struct{}), log: filepath.Join(o.Data, "signalboxd.log"), grace: stopTimeout}
	log, err := os.OpenFile(s.log, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the log: %w", err)
	}
	defer func() { _ = log.Close() }()
	s.cmd = exec.Command(o.Server, "--data", o.Data, "--listen", o.Listen, "--ready-file", ready) //nolint:noctx // stopped by a signal, not killed with ctx.
	s.cmd.Env = append(os.Environ(), "SERVICE_BOOTSTRAP_ADMIN_PASSWORD_FILE="+passwordFile)
	s.cmd.Stdout, s.cmd.Stderr = log, log
	// With its own process group, Ctrl-C in the terminal reaches only the demo, which then stops the server cleanly.
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	interruptWithParent(s.cmd.SysProcAttr)
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", o.Server, err)
	}
	go func() {
		_ = s.cmd.Wait() // the log of the server shows why it ended
		close(s.done)
	}()
	if err := s.await(ctx, o.Clock, ready); err != nil {
		return nil, errors.Join(s.explain(err), s.stop())
	}
	return s, nil
}

func (s *server) await(ctx context.Context, clk clock.Clock, ready string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("the start took longer than %s", startTimeout))
	defer cancel()
	for {
		if raw, err := os.ReadFile(ready); err == nil {
			if err := json.Unmarshal(raw, s); err != nil {
				return fmt.Errorf("read the ready file: %w", err)
			}
			return nil
		}
		select {
		case <-s.done:
			return errors.New("the server ended during its start")
		default:
		}
		if err := clock.Sleep(ctx, clk, readyEvery); err != nil {
			return fmt.Errorf("the server did not become ready: %w", context.Cause(ctx))
		}
	}
}

// stop interrupts the server, and kills it if it does not end within its grace period.
func (s *server) stop() error {
	if err := s.cmd.Process.Signal(syscall.SIGINT); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop the server: %w", err)
	}
	timer := clock.Real().NewTimer(s.grace)
	defer timer.Stop()
	select {
	case <-s.done:
		return nil
	case <-timer.C():
	}
	// Kill the whole process group, including the processes that the server started.
	if err := syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("kill the server: %w", err)
	}
	<-s.done
	return errors.New("the server did not stop within its grace period and was killed")
}

// wait returns nil when ctx ends, or an error if the server ends before that.
func (s *server) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-s.done:
		return s.explain(errors.New("the server ended"))
	}
}

// tailBytes is how much of the log an error shows.
const tailBytes = 2048

// explain adds the last tailBytes of the server's log to an error.
func (s *server) explain(err error) error {
	f, openErr := os.Open(s.log)
	if openErr != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if info, statErr := f.Stat(); statErr == nil && info.Size() > tailBytes {
		_, _ = f.Seek(-tailBytes, io.SeekEnd)
	}
	tail, _ := io.ReadAll(f)
	if len(bytes.TrimSpace(tail)) == 0 {
		return err
	}
	return fmt.Errorf("%w\nthe end of %s:\n%s", err, s.log, bytes.TrimSpace(tail))
}
