package e2eflow

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/signalbox-dev/signalbox/internal/client"
)

// Dataset is a dataset version that PushDataset has created.
type Dataset struct {
	ID  string
	Ref string
}

type uploadTarget struct {
	URL     string            `json:"url"`
	Method  string            `json:"method"`
	Headers map[string]string `json:"headers"`
}

// PushDataset creates a version with one file, which it uploads to a signed URL. It creates the dataset l.Name if it
// is missing.
func (l *Loop) PushDataset(ctx context.Context, version, file string, data []byte) (Dataset, error) {
	id, err := l.ensure(ctx, "/api/datasets", map[string]any{"name": l.Name, "format": "jsonl"})
	if err != nil {
		return Dataset{}, err
	}
	sum := sha256.Sum256(data)
	var made struct {
		Uploads []uploadTarget `json:"uploads"`
	}
	versions := "/api/datasets/" + id + "/versions"
	err = l.create(ctx, versions, map[string]any{
		"version": version,
		"files":   []any{map[string]any{"path": file, "size_bytes": len(data), "sha256": hex.EncodeToString(sum[:])}},
	}, &made)
	if err != nil {
		return Dataset{}, fmt.Errorf("create the version: %w", err)
	}
	for _, u := range made.Uploads {
		err := l.retry(ctx, func(ctx context.Context) error { return l.Client.Upload(ctx, u.Method, u.URL, u.Headers, data) })
		if err != nil {
			return Dataset{}, fmt.Errorf("upload %s: %w", file, err)
		}
	}
	var committed struct {
		State string `json:"state"`
		Ref   string `json:"ref"`
	}
	if err := l.create(ctx, versions+"/"+version+"/commit", nil, &committed); err != nil {
		return Dataset{}, fmt.Errorf("commit the version: %w", err)
	}
	if committed.State != "ready" {
		return Dataset{}, fmt.Errorf("the version is %s, not ready", committed.State)
	}
	return Dataset{ID: id, Ref: committed.Ref}, nil
}

// EnsureDataset returns the version of the dataset l.Name, and pushes it if it is missing.
func (l *Loop) EnsureDataset(ctx context.Context, version, file string, data []byte) (Dataset, error) {
	var list []struct {
		ID   string `json:"id"`
		Name string `json:"name"`
	}
	if err := l.get(ctx, "/api/datasets?name="+url.QueryEscape(l.Name), &list); err != nil {
		return Dataset{}, fmt.Errorf("find the dataset %s: %w", l.Name, err)
	}
	for _, d := range list {
		if d.Name != l.Name {
			continue
		}
		var found struct {
			State string `json:"state"`
			Ref   string `json:"ref"`
		}
		err := l.get(ctx, "/api/datasets/"+d.ID+"/versions/"+version, &found)
		if refused, ok := errors.AsType[*client.Error](err); ok && refused.Status == http.StatusNotFound {
			break
		}
		if err != nil {
			return Dataset{}, fmt.Errorf("find the version %s of %s: %w", version, l.Name, err)
		}
		if found.State == "ready" {
			return Dataset{ID: d.ID, Ref: found.Ref}, nil
		}
	}
	return l.PushDataset(ctx, version, file, data)
}

// ensure returns the ID of the object named l.Name in the list at the given path. It creates a missing object.
func (l *Loop) ensure(ctx context.Context, path string, body map[string]any) (string, error) {
	type named struct {
		ID   string `json:"id"`
		Name string `json:"name"`
	}
	var list []named
	if err := l.get(ctx, path+"?name="+url.QueryEscape(l.Name), &list); err != nil {
		return "", fmt.Errorf("find %s at %s: %w", l.Name, path, err)
	}
	for _, r := range list {
		if r.Name == l.Name {
			return r.ID, nil
		}
	}
	var made named
	if err := l.create(ctx, path, body, &made); err != nil {
		return "", fmt.Errorf("create %s at %s: %w", l.Name, path, err)
	}
	return made.ID, nil
}
