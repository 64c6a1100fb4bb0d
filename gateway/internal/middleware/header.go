package middleware

import (
	"net/http"
	"net/url"
	"strings"

	"google.golang.org/grpc/metadata"

	"github.com/signalbox-dev/signalbox/gateway/internal/restjson"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// Metadata keys that services read. The gateway's package comment specifies them.
const (
	MetadataIdempotencyKey = "idempotency-key"
	MetadataConfirm        = "x-service-confirm"
	MetadataIfMatch        = "if-match"
	MetadataIfNoneMatch    = "if-none-match"
	MetadataUserAgent      = "x-service-user-agent"
	MetadataRefresh        = "x-service-refresh"
)

const (
	maxHeaderValue = 255
	maxUserAgent   = 256
)

// passed lists the request headers that reach services unchanged, each with its metadata key.
func passed() [4][2]string {
	return [4][2]string{
		{"Idempotency-Key", MetadataIdempotencyKey},
		{"X-Service-Confirm", MetadataConfirm},
		{"If-Match", MetadataIfMatch},
		{"If-None-Match", MetadataIfNoneMatch},
	}
}

// Metadata returns the metadata for services from a request's headers. If one of the headers in passed() is repeated,
// empty, too long or not printable, Metadata rejects it instead of repairing it, because these headers decide what a
// service does. It cuts User-Agent to maxUserAgent bytes and replaces each character of it that is not printable ASCII
// with a question mark.
func Metadata(h http.Header) (metadata.MD, *fault.Error) {
	md := metadata.MD{}
	var faults []fault.Field
	for _, pair := range passed() {
		values := h.Values(pair[0])
		switch {
		case len(values) == 0:
		case len(values) > 1:
			faults = append(faults, fault.At("duplicate_key", "Header given more than once", "header", strings.ToLower(pair[0])))
		case values[0] == "" || len(values[0]) > maxHeaderValue || !printable(values[0]):
			faults = append(faults, fault.At(fault.TypeValue, "Header should have 1 to 255 printable ASCII characters", "header", strings.ToLower(pair[0])))
		default:
			md.Set(pair[1], values[0])
		}
	}
	if len(faults) > 0 {
		return nil, fault.InvalidFields(faults...)
	}
	if agent := h.Get("User-Agent"); agent != "" {
		md.Set(MetadataUserAgent, asciiOnly(agent, maxUserAgent))
	}
	return md, nil
}

func printable(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) < 0
}

func asciiOnly(s string, limit int) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, s[:min(len(s), limit)])
}

// Inner returns the copy of r that the generated handlers get. They would forward more than a service may
// receive, so the copy has no client headers and no addresses, only the checked query and the checked body, if any.
func Inner(r *http.Request, query url.Values, body *restjson.Body) *http.Request {
	c := r.WithContext(r.Context())
	c.Header = http.Header{"Content-Type": {restjson.ContentType}}
	c.Host, c.RemoteAddr = "", ""
	c.URL = &url.URL{Path: r.URL.Path, RawQuery: query.Encode()}
	c.Body = http.NoBody
	if body != nil {
		c.Body = body
	}
	return c
}
