package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/signalbox-dev/signalbox/platform/pg/local"
	"github.com/signalbox-dev/signalbox/test/pgtest/pgserver/uselock"
)

// idle is the time without use after which the server stops. It is longer than the compilation of the next
// test package takes.
const idle = 15 * time.Second

// serve runs the server in the folder dir until no test uses it.
func serve(ctx context.Context, dir, setting, cache string) error {
	release, err := uselock.Own(dir)
	if err != nil {
		return err
	}
	defer release()
	bin, err := local.Find(setting, cache)
	if err != nil {
		return err
	}
	home := filepath.Join(dir, "server")
	server, err := local.Start(ctx, local.Config{BinDir: bin, Dir: home, Fresh: true, Unsafe: true, MaxConnections: 500})
	if err != nil {
		return err
	}
	url := filepath.Join(dir, uselock.URLFile)
	if err := os.WriteFile(url, []byte(server.AdminURL().Reveal()+"\n"), 0o600); err != nil {
		return errors.Join(err, server.Stop(ctx))
	}
	done, err := watch(ctx, dir, server)
	err = errors.Join(err, os.Remove(url), server.Stop(context.WithoutCancel(ctx)))
	if done == nil {
		return err // the next owner may already use the folder
	}
	defer done()
	return errors.Join(err, os.RemoveAll(home))
}

// create creates an empty cluster in the folder dir.
func create(ctx context.Context, dir, setting, cache string) error {
	bin, err := local.Find(setting, cache)
	if err != nil {
		return err
	}
	server, err := local.Start(ctx, local.Config{BinDir: bin, Dir: dir, Unsafe: true})
	if err != nil {
		return err
	}
	// Servers of copies must choose their own ports and write their own logs.
	return errors.Join(server.Stop(ctx), os.Remove(filepath.Join(dir, "port")), os.Remove(filepath.Join(dir, "postgres.log")))
}

// watch waits until the server is no longer used or has ended. If done is not nil, the caller holds the lock for
// which new tests wait, until the caller calls done.
func watch(ctx context.Context, dir string, server *local.Server) (done func(), err error) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, nil
		case <-server.Exited():
			return nil, errors.New("the server exited unexpectedly")
		case <-tick.C:
		}
		done, unused, err := uselock.TryExclusive(dir, idle)
		if err != nil {
			return nil, err
		}
		if unused {
			return done, nil
		}
	}
}
