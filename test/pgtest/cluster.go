package pgtest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// Cluster puts an empty cluster into dir, where platform/pg/local finds it at its next start. It copies a cluster that
// it creates once for all test processes, because initdb takes ten times as long as a copy. All copies have the same
// password. If TEST_DATABASE_URL is set, Cluster does nothing, so that platform/pg/local creates the cluster.
func Cluster(tb testing.TB, dir string) {
	tb.Helper()
	if os.Getenv("TEST_DATABASE_URL") != "" {
		return
	}
	ctx, cancel := context.WithTimeout(tb.Context(), limit)
	defer cancel()
	conn := open(ctx, tb) // pgserver removes the cluster when no test uses the server
	source, err := emptyCluster(ctx, conn)
	require.NoError(tb, err, "create the cluster that tests copy")
	require.NoError(tb, os.MkdirAll(dir, 0o700))
	require.NoError(tb, run(ctx, "cp", "-a", source+"/.", dir))
}

// emptyCluster returns the folder of the cluster, and creates it if it does not exist. Test processes wait for each
// other.
func emptyCluster(ctx context.Context, conn *pgx.Conn) (string, error) {
	base, err := folder()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(base, "server", "empty")
	if _, err := conn.Exec(ctx, `SELECT pg_advisory_lock($1)`, lockKey(dir)); err != nil {
		return "", fmt.Errorf("wait for the cluster: %w", err)
	}
	defer func() { _, _ = conn.Exec(ctx, `SELECT pg_advisory_unlock($1)`, lockKey(dir)) }()
	return dir, ensureCluster(ctx, base, dir)
}

// ensureCluster creates a cluster in the folder dir, with the program pgserver in the folder base, unless the cluster
// exists. It renames the complete cluster, so an existing cluster is always complete.
func ensureCluster(ctx context.Context, base, dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	fresh := dir + ".new"
	if err := os.RemoveAll(fresh); err != nil {
		return fmt.Errorf("remove the incomplete cluster: %w", err)
	}
	if err := run(ctx, filepath.Join(base, "pgserver"), "create", fresh, os.Getenv("SERVICE_POSTGRES_BIN"), moduleCache()); err != nil {
		return err
	}
	if err := os.Rename(fresh, dir); err != nil {
		return fmt.Errorf("rename the new cluster: %w", err)
	}
	return nil
}

func run(ctx context.Context, program string, args ...string) error {
	if out, err := exec.CommandContext(ctx, program, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", program, err, out)
	}
	return nil
}
