package agent

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/signalbox-dev/signalbox/agent/engine"
	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/agent/host"
	"github.com/signalbox-dev/signalbox/agent/slurm"
	"github.com/signalbox-dev/signalbox/platform/conf"
	"github.com/signalbox-dev/signalbox/platform/localfile"
)

// The values of SERVICE_AGENT_RUNS_ON.
const (
	runsOnHost  = "host"
	runsOnSlurm = "slurm"
)

// validateSlurm checks the settings for Slurm.
func (c Config) validateSlurm() (errs []error) {
	switch {
	case c.RunsOn != "" && c.RunsOn != runsOnHost && c.RunsOn != runsOnSlurm:
		errs = append(errs, conf.Errorf("SERVICE_AGENT_RUNS_ON", "must be host or slurm, got %q", c.RunsOn))
	case c.RunsOn == runsOnSlurm && !filepath.IsAbs(c.SlurmFolder):
		errs = append(errs, conf.Errorf("SERVICE_AGENT_SLURM_FOLDER", "must be an absolute path of a folder that all nodes of the cluster share, got %q", c.SlurmFolder))
	case c.RunsOn != runsOnSlurm && c.SlurmFolder != "":
		errs = append(errs, conf.Errorf("SERVICE_AGENT_SLURM_FOLDER", "has an effect only with SERVICE_AGENT_RUNS_ON=slurm"))
	}
	if c.RunsOn == runsOnSlurm && c.RelayListen != "" {
		errs = append(errs, conf.Errorf("SERVICE_AGENT_RELAY_LISTEN", "has no effect with SERVICE_AGENT_RUNS_ON=slurm, because engines do not run on Slurm"))
	}
	return errs
}

// openCluster prepares the agent's folder on the shared file system of a Slurm cluster, and changes the configuration of
// the host so that works are stored there and attempts run on the cluster. It does nothing for an agent of a host.
func (a *Agent) openCluster(works *host.Config, deps *host.Deps, d Deps) error {
	if a.cfg.RunsOn != runsOnSlurm {
		return nil
	}
	id, err := agentID(filepath.Join(a.cfg.Data, "agent-id"), d.Rand)
	if err != nil {
		return err
	}
	data := filepath.Join(a.cfg.SlurmFolder, "signalbox-"+id)
	if err := shareFolder(a.cfg.SlurmFolder, data, filepath.Join(a.cfg.Data, "slurm-folder")); err != nil {
		return err
	}
	program, err := shareProgram(a.cfg.Exec[0], filepath.Join(data, "bin"))
	if err != nil {
		return err
	}
	commands, err := slurm.Count(slurm.NewCommands(a.cfg.Environ), d.Meter)
	if err != nil {
		return err
	}
	a.cluster = slurm.New(slurm.Config{
		Folder: data, Shared: a.cfg.SlurmFolder, Agent: id, Program: program, Environ: a.cfg.Environ, Place: host.NewPlace(*works),
	}, slurm.Deps{Commands: commands, Clock: d.Clock, Log: d.Log})
	works.Private = append(slices.Clip(works.Private), works.Data)
	works.Data, deps.Runner = data, a.cluster
	return nil
}

// reported returns the cluster whose report the link sends, or nil.
func (a *Agent) reported() executor.Cluster {
	if a.cluster == nil {
		return nil
	}
	return a.cluster
}

// drivers returns the drivers of the engines that the agent can run.
func (a *Agent) drivers() []string {
	if a.cluster != nil {
		return nil
	}
	return engine.Names()
}

// countGPUs returns the number of GPUs of this machine that works may get.
func (a *Agent) countGPUs() int {
	if a.cluster != nil {
		return 0
	}
	return a.host.CountGPUs()
}

// agentID returns the id of the agent in the comments of its Slurm jobs. The first agent with this data folder draws it.
func agentID(path string, random io.Reader) (string, error) {
	raw, err := os.ReadFile(path)
	if err == nil {
		return strings.TrimSpace(string(raw)), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read the id of the agent: %w", err)
	}
	id := make([]byte, 8)
	if _, err := io.ReadFull(random, id); err != nil {
		return "", fmt.Errorf("draw the id of the agent: %w", err)
	}
	text := hex.EncodeToString(id)
	return text, localfile.Write(path, []byte(text+"\n"), localfile.PrivateMode)
}

// shareFolder creates the agent's folder in the shared one. The file known, on the host of the agent, names the folder that an
// earlier agent has created. That folder must still be there: otherwise the shared file system is not mounted, and the agent
// would not find its works.
func shareFolder(shared, folder, known string) error {
	if err := checkShared(shared); err != nil {
		return err
	}
	before, err := os.ReadFile(known)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the name of the agent's shared folder: %w", err)
	}
	if strings.TrimSpace(string(before)) == folder && !slurm.Marked(folder) {
		return fmt.Errorf("the agent's folder %s does not exist any more; mount the shared file system, or, if the folder was removed on purpose, remove %s", folder, known)
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("create the agent's folder in SERVICE_AGENT_SLURM_FOLDER: %w", err)
	}
	if err := checkOwn(folder); err != nil {
		return err
	}
	if err := slurm.Mark(folder); err != nil {
		return err
	}
	return localfile.Write(known, []byte(folder+"\n"), localfile.PrivateMode)
}

// checkShared returns an error if other users may rename or remove the agent's folder in the shared one. They could put
// another folder in its place, from which the nodes would run programs as the agent's user.
func checkShared(shared string) error {
	info, err := os.Stat(shared)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it is created for this user alone
	}
	if err != nil {
		return fmt.Errorf("inspect SERVICE_AGENT_SLURM_FOLDER: %w", err)
	}
	const others = 0o022
	if info.Mode().Perm()&others != 0 && info.Mode()&fs.ModeSticky == 0 {
		return fmt.Errorf("other users can rename folders in SERVICE_AGENT_SLURM_FOLDER %s; remove their right to write, or set the sticky bit: chmod +t %[1]s", shared)
	}
	return nil
}

// checkOwn returns an error unless the folder is one that only the agent's user can enter. Another user of the cluster could
// have created it before, because its name is in the comments of Slurm jobs.
func checkOwn(folder string) error {
	info, err := os.Lstat(folder)
	if err != nil {
		return fmt.Errorf("inspect the agent's folder in SERVICE_AGENT_SLURM_FOLDER: %w", err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	const others = 0o077
	if !ok || !info.IsDir() || int(stat.Uid) != os.Geteuid() || info.Mode().Perm()&others != 0 {
		return fmt.Errorf("the folder %s must belong to the agent's user, and no other user may enter it; remove it, and choose a SERVICE_AGENT_SLURM_FOLDER in which only this user can create folders", folder)
	}
	return nil
}

// shareProgram copies the agent's program into a folder that all nodes share, and returns the path of the copy. Each
// version has a name of its own, because ranks of an earlier version may still be running.
func shareProgram(program, folder string) (string, error) {
	raw, err := os.ReadFile(program)
	if err != nil {
		return "", fmt.Errorf("read the agent's program: %w", err)
	}
	sum := sha256.Sum256(raw)
	path := filepath.Join(folder, "signalbox-agent-"+hex.EncodeToString(sum[:8]))
	if shared, err := os.ReadFile(path); err == nil && bytes.Equal(shared, raw) {
		return path, nil
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", fmt.Errorf("create the folder of the agent's program: %w", err)
	}
	const executable = 0o700
	return path, localfile.Write(path, raw, executable)
}
