package controlplane

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/localfile"
	"github.com/signalbox-dev/signalbox/platform/rpc/pki"
)

// ErrCertificateExpired reports that the node's certificate has expired. The agent must join its fleet
// again.
var ErrCertificateExpired = errors.New("the node's certificate has expired")

// endedError adds the node and the remedy to ErrCertificateExpired.
func (n Node) endedError(at time.Time) error {
	const format = "%w: node %s, expired at %s; this agent must join its fleet again: remove %s and start it with a new join token"
	return fmt.Errorf(format, ErrCertificateExpired, n.ID, at.Format(time.RFC3339), n.dir)
}

const (
	// renewLook is the longest time between two checks of the clock. A longer sleep could miss the renewal if
	// the machine was suspended.
	renewLook = time.Hour
	// spread sets the jitter: each renewal is delayed by a random time of at most the lifetime divided by spread.
	spread = 24
)

// keepCertificate runs until ctx ends. It renews the node's certificate after two thirds of its lifetime
// and then restarts the session with the new certificate.
func (l *Link) keepCertificate(ctx context.Context, n Node) {
	jitter := l.deps.Backoff.Jitter
	again := clock.Backoff{Base: time.Minute, Max: time.Hour, Jitter: jitter}
	for try, chance := 0, jitter(); ; {
		wait, err := l.untilRenewal(n, chance)
		if err == nil && wait <= 0 {
			if err = l.renew(ctx, n); err == nil {
				l.deps.Log.InfoContext(ctx, "node certificate renewed", "node_id", n.ID)
				l.leaveLine()
				// Wait an hour, so that a wrong clock does not cause one renewal right after the other.
				try, chance, wait = 0, jitter(), renewLook
			}
		}
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			wait = again.Wait(try)
			try++
			l.deps.Log.WarnContext(ctx, "cannot renew the node certificate; trying again", "node_id", n.ID, "error", err.Error(), "retry_in", wait.String())
		}
		if clock.Sleep(ctx, l.deps.Clock, min(wait, renewLook)) != nil {
			return
		}
	}
}

// untilRenewal returns the time until the certificate must be renewed. The parameter chance is the random number in [0,
// 1) that determines the jitter of this renewal.
func (l *Link) untilRenewal(n Node, chance float64) (time.Duration, error) {
	raw, err := os.ReadFile(filepath.Join(n.dir, identityFile))
	if err != nil {
		return 0, fmt.Errorf("read the node's certificate: %w", err)
	}
	leaf, err := leafOf(raw)
	if err != nil {
		return 0, err
	}
	life := leaf.NotAfter.Sub(leaf.NotBefore)
	due := leaf.NotBefore.Add(life/3*2 + time.Duration(chance*float64(life/spread)))
	return due.Sub(l.deps.Clock.Now()), nil
}

// renew generates a new key and replaces the certificate with one for that key.
func (l *Link) renew(ctx context.Context, n Node) error {
	client := l.client()
	if client == nil {
		return errNoLine
	}
	key, request, err := pki.NewRequest()
	if err != nil {
		return err
	}
	response, err := client.RenewCertificate(ctx, &jobsv1.RenewCertificateRequest{CertificateRequest: string(request)})
	if err != nil {
		return fmt.Errorf("request a new certificate: %w", err)
	}
	cert, ca := []byte(response.GetCertificate()), []byte(response.GetCaCertificate())
	if err := n.fits(cert, key, ca, l.deps.Clock.Now()); err != nil {
		return fmt.Errorf("the response contains no valid certificate for this node: %w", err)
	}
	if err := localfile.Write(filepath.Join(n.dir, caFile), ca, localfile.PrivateMode); err != nil {
		return err
	}
	return n.writeIdentity(cert, key)
}

// fits returns an error unless the certificate cert is valid, names this node, belongs to the given key and was issued
// by the given CA.
func (n Node) fits(cert, key, ca []byte, now time.Time) error {
	identity, err := pki.Parse(cert, key, ca)
	if err != nil {
		return err
	}
	if want, err := pki.NodeName(n.ID); err != nil || identity.Name != want {
		return errors.Join(err, fmt.Errorf("the certificate is for %s, not for node %s", identity.Name, n.ID))
	}
	leaf, err := leafOf(cert)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	_, err = leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	return err
}

// writeIdentity replaces the certificate and its key. Both are in one file, so they match even after a power
// failure.
func (n Node) writeIdentity(cert, key []byte) error {
	return localfile.Write(filepath.Join(n.dir, identityFile), slices.Concat(cert, key), localfile.PrivateMode)
}

func leafOf(raw []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(raw)
	if block == nil {
		return nil, errors.New("the node's certificate is not valid PEM")
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("parse the node's certificate: %w", err)
	}
	return leaf, nil
}
