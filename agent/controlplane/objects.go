package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/signalbox-dev/signalbox/agent/executor"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// errNoLine is returned until the link has connected for the first time.
var errNoLine = errors.New("the agent is not connected to the control plane")

// Download implements executor.Downloader. Each call uses a newly signed URL.
func (l *Link) Download(ctx context.Context, key executor.Key, object executor.ObjectRef) (io.ReadCloser, error) {
	url, err := l.signed(ctx, key, object.URI)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, errors.New("the signed URL is not valid")
	}
	resp, err := l.deps.HTTP.Do(req)
	if err != nil {
		// Remove the URL from the error of net/http, because the URL contains the signature.
		return nil, fmt.Errorf("download the object: %w", withoutURL(err))
	}
	if resp.StatusCode == http.StatusOK {
		return resp.Body, nil
	}
	_ = resp.Body.Close()
	err = fmt.Errorf("download the object: the object store responded with status %d", resp.StatusCode)
	if resp.StatusCode == http.StatusNotFound {
		err = errors.Join(executor.ErrPermanent, err)
	}
	return nil, err
}

// MintIngestToken implements executor.TokenMinter.
func (l *Link) MintIngestToken(ctx context.Context, key executor.Key) (executor.Token, error) {
	client := l.client()
	if client == nil {
		return executor.Token{}, errNoLine
	}
	token, err := client.MintIngestToken(ctx, &jobsv1.MintIngestTokenRequest{
		WorkId: key.WorkID, Generation: key.Generation, Fence: key.Fence,
	})
	if err != nil {
		return executor.Token{}, classified("mint the ingest token", err)
	}
	return executor.Token{
		Secret: secret.New(token.GetToken()), ExpiresAt: token.GetExpiresAt().AsTime(),
		Lease: secret.New(token.GetLeaseToken()), Silence: time.Duration(token.GetSilenceS()) * time.Second,
	}, nil
}

// GrantLease implements executor.TokenMinter.
func (l *Link) GrantLease(ctx context.Context, key executor.Key) (secret.String, error) {
	client := l.client()
	if client == nil {
		return secret.String{}, errNoLine
	}
	lease, err := client.GrantLease(ctx, &jobsv1.GrantLeaseRequest{WorkId: key.WorkID, Generation: key.Generation, Fence: key.Fence})
	if err != nil {
		return secret.String{}, classified("begin the lease", err)
	}
	return secret.New(lease.GetLeaseToken()), nil
}

func classified(what string, err error) error {
	err = fmt.Errorf("%s: %w", what, err)
	if permanent(err) {
		return errors.Join(executor.ErrPermanent, err)
	}
	return err
}

func withoutURL(err error) error {
	var u interface{ Unwrap() error }
	if errors.As(err, &u) && u.Unwrap() != nil {
		return u.Unwrap()
	}
	return errors.New("the request failed")
}
