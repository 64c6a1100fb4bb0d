package httpapi

import (
	"context"
	"encoding/hex"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/artifact"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/groupcommit"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/report"
)

// registered is the response to a registration.
type registered struct {
	OK        bool    `json:"ok"`
	ID        string  `json:"id"`
	RunID     string  `json:"run_id"`
	Attempt   int32   `json:"attempt"`
	Kind      string  `json:"kind"`
	Format    string  `json:"format"`
	Step      *int64  `json:"step"`
	Path      string  `json:"path"`
	Name      string  `json:"name"` // the path as the client gave it
	Size      int64   `json:"size_bytes"`
	SHA256    *string `json:"sha256"` // null for a path on a host
	CreatedAt instant `json:"created_at"`
}

// instant is a time that is encoded in the API's format: UTC with microseconds and the offset +00:00.
type instant time.Time

// MarshalText implements encoding.TextMarshaler.
func (i instant) MarshalText() ([]byte, error) {
	return time.Time(i).UTC().AppendFormat(nil, "2006-01-02T15:04:05.000000+00:00"), nil
}

func (h *Handler) artifact(ctx context.Context, r *request) (any, error) {
	p, err := report.ReadArtifact(r.body)
	if err != nil {
		return nil, err
	}
	if err := r.may(p.RunID, p.Rank); err != nil {
		return nil, err
	}
	if err := r.grant.Fence(); err != nil && r.key.Seq == 0 {
		return nil, err
	}
	withheld := 0
	if d := r.grant.Withhold; d != nil {
		withheld = p.Withhold(d)
	}
	a, err := h.Registrar.Inspect(ctx, p, r.grant.Container)
	if err != nil {
		return nil, err
	}
	a.Withheld = r.grant.Withhold != nil
	item := r.sized("artifact", groupcommit.Artifacts, groupcommit.ArtifactCost, artifact.Write(a, h.IDs.New(id.Artifact)))
	if err := h.store(ctx, item, withheld); err != nil {
		return nil, err
	}
	if a, err = h.Artifacts.Find(ctx, a); err != nil {
		return nil, err
	}
	if a.Kind == report.KindCheckpoint && a.URI() != "" {
		if err := h.Checkpoint(ctx, r.grant, a); err != nil {
			return nil, err // the artifact is registered; if the client retries, the jobs service is called again
		}
		h.Keep(ctx, r.grant)
	}
	return registered{
		OK: true, ID: a.ID, RunID: a.RunID, Attempt: a.Attempt, Kind: a.Kind, Format: a.Format, Step: a.Step,
		Path: a.Path, Name: a.Title(), Size: a.Size, SHA256: a.Digest(), CreatedAt: instant(a.CreatedAt),
	}, nil
}

// ticket is the response to a request for an upload URL.
type ticket struct {
	URL       string            `json:"url"`
	Method    string            `json:"method"`
	Headers   map[string]string `json:"headers"`
	ObjectURI string            `json:"object_uri"`
	ExpiresAt instant           `json:"expires_at"`
}

func (h *Handler) uploadURL(ctx context.Context, r *request) (any, error) {
	q, err := readQuery(r.http.URL, "run_id", "kind", "path", "size_bytes", "sha256")
	if err != nil {
		return nil, err
	}
	u, err := upload(q)
	if err != nil {
		return nil, err
	}
	if err := r.may(u.RunID, nil); err != nil {
		return nil, err
	}
	if err := r.grant.Fence(); err != nil {
		return nil, err
	}
	u.Attempt = r.grant.Attempt
	if d := r.grant.Withhold; d != nil {
		u.Path = d.ObjectName(u.Kind, u.Path)
	}
	signed, err := h.Registrar.URL(ctx, u)
	if err != nil {
		return nil, err
	}
	headers := signed.Headers
	if headers == nil {
		headers = map[string]string{}
	}
	return ticket{
		URL: signed.URL, Method: signed.Method, Headers: headers, ObjectURI: blob.URI(u.Key()),
		ExpiresAt: instant(signed.ExpiresAt),
	}, nil
}

// upload checks the query parameters of a request for an upload URL and returns the upload without its attempt.
func upload(q map[string]string) (*artifact.Upload, error) {
	u := &artifact.Upload{RunID: q["run_id"], Kind: q["kind"], Path: q["path"], SHA256: q["sha256"]}
	var faults []fault.Field
	wrong := func(typ, msg, name string) { faults = append(faults, fault.At(typ, msg, "query", name)) }
	if !slices.Contains(report.Kinds(), u.Kind) {
		wrong(fault.TypeEnum, "Input should be 'checkpoint', 'hf_export', 'eval_report' or 'merged_model'", "kind")
	}
	if u.Path == "" {
		wrong(fault.TypeStringShort, "String should have at least 1 character", "path")
	}
	if utf8.RuneCountInString(u.Path) > maxPath {
		wrong(fault.TypeStringLong, "String should have at most 4096 characters", "path")
	}
	if !utf8.ValidString(u.Path) {
		wrong(fault.TypeValue, "String should be valid UTF-8", "path")
	}
	if strings.IndexByte(u.Path, 0) >= 0 {
		wrong(fault.TypeValue, "String should not contain NUL", "path")
	}
	size, err := strconv.ParseInt(q["size_bytes"], 10, 64)
	if u.Size = size; err != nil || size < 0 {
		wrong(fault.TypeIntParsing, "Input should be an integer of at least 0", "size_bytes")
	}
	if raw, err := hex.DecodeString(u.SHA256); err != nil || len(raw) != 32 || hex.EncodeToString(raw) != u.SHA256 {
		wrong(fault.TypeStringPattern, "Input should be 64 lower-case hex digits", "sha256")
	}
	if len(faults) > 0 {
		return nil, fault.InvalidFields(faults...)
	}
	return u, nil
}

// maxPath is the maximum length of a path in characters, the same as in a report of the artifact.
const maxPath = 4096

// watermark responds, for each stream and writer, with the highest number up to which all requests are stored.
func (h *Handler) watermark(ctx context.Context, r *request) (any, error) {
	q, err := readQuery(r.http.URL, "run_id")
	if err != nil {
		return nil, err
	}
	if err := r.grant.Run(q["run_id"]); err != nil {
		return nil, err
	}
	marks, err := h.Marks.Watermark(ctx, q["run_id"])
	if err != nil {
		return nil, err
	}
	return marksOf(marks, r.rank), nil
}

// readQuery reads the query of a URL, which must contain each of the given names exactly once and no other name. A name
// that ends in ? is optional.
func readQuery(u *url.URL, names ...string) (map[string]string, error) {
	values, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, fault.InvalidFields(fault.At(fault.TypeValue, "Input should be a valid query string", "query"))
	}
	var faults []fault.Field
	out := map[string]string{}
	known := make([]string, len(names))
	for i, name := range names {
		name, optional := strings.CutSuffix(name, "?")
		known[i] = name
		switch given := values[name]; len(given) {
		case 0:
			if optional {
				continue
			}
			faults = append(faults, fault.At(fault.TypeMissing, "Field required", "query", name))
		case 1:
			out[name] = given[0]
		default:
			faults = append(faults, fault.At(fault.TypeValue, "Name given more than once", "query", name))
		}
	}
	for name := range values {
		if !slices.Contains(known, name) && len(faults) < 50 {
			faults = append(faults, fault.At(fault.TypeExtra, "Extra inputs are not permitted", "query", name[:min(len(name), 128)]))
		}
	}
	if len(faults) > 0 {
		return nil, fault.InvalidFields(faults...)
	}
	return out, nil
}

// readFilters is readQuery for names that select a part of the data. It refuses an empty value, with which a client would get
// all data.
func readFilters(u *url.URL, names ...string) (map[string]string, error) {
	out, err := readQuery(u, names...)
	if err != nil {
		return nil, err
	}
	var faults []fault.Field
	for _, name := range slices.Sorted(maps.Keys(out)) {
		if out[name] == "" {
			faults = append(faults, fault.At(fault.TypeStringShort, "String should have at least 1 character", "query", name))
		}
	}
	if len(faults) > 0 {
		return nil, fault.InvalidFields(faults...)
	}
	return out, nil
}
