package middleware

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/signalbox-dev/signalbox/platform/request"
)

// The keys of response metadata that a service may set.
const (
	metadataStatus    = "x-service-status"
	metadataMore      = "x-service-more"
	metadataTotal     = "x-service-total"
	metadataAfter     = "x-service-after"
	metadataSetCookie = "x-service-set-cookie"
)

// ResponseMetadata forwards the metadata of services: headers, status, paging and the cookie.
type ResponseMetadata struct {
	// Cookie is the name of the only cookie that may be set. Only auth may set it.
	Cookie string
}

// Forward is a forward-response option of the mux: it sets the headers and the status of a response.
func (a ResponseMetadata) Forward(ctx context.Context, w http.ResponseWriter, _ proto.Message) error {
	c := CallOf(ctx)
	md, _ := runtime.ServerMetadataFromContext(ctx)
	a.Headers(w.Header(), c, md.HeaderMD)
	listHeaders(w.Header(), c, md.HeaderMD)
	status := c.Status
	if given := md.HeaderMD.Get(metadataStatus); len(given) > 0 {
		var ok bool
		if status, ok = okStatus(given[0]); !ok {
			return fmt.Errorf("%s: %s has the unsupported status %q", c.RPC, metadataStatus, given[0])
		}
	}
	if status == http.StatusNoContent {
		w.Header().Del("Content-Type")
	}
	if status != http.StatusOK {
		w.WriteHeader(status)
	}
	return nil
}

// Headers sets the headers that successful responses and errors share.
func (a ResponseMetadata) Headers(h http.Header, c *Call, md metadata.MD) {
	for key, name := range map[string]string{
		"x-service-impact": "X-Service-Impact", "etag": "Etag", "location": "Location",
		"cache-control": "Cache-Control", "last-modified": "Last-Modified",
	} {
		if values := md.Get(key); len(values) > 0 {
			h.Set(name, values[len(values)-1])
		}
	}
	if c.Service == "auth" {
		a.Session(h, md)
	}
}

// Session sets the refresh cookie from auth's metadata. It ignores all other cookies.
func (a ResponseMetadata) Session(h http.Header, md metadata.MD) {
	for _, line := range md.Get(metadataSetCookie) {
		if cookie, err := http.ParseSetCookie(line); err == nil && cookie.Name == a.Cookie {
			h.Add("Set-Cookie", line)
		}
	}
}

func listHeaders(h http.Header, c *Call, md metadata.MD) {
	total := -1
	if given := md.Get(metadataTotal); len(given) > 0 {
		if n, err := strconv.Atoi(given[0]); err == nil {
			total = n
		}
	}
	more := len(md.Get(metadataMore)) > 0 && md.Get(metadataMore)[0] == "true"
	if total < 0 && !more {
		return
	}
	p, err := request.NewPage(bound(c, "limit"), bound(c, "offset"))
	if err == nil {
		after := ""
		if given := md.Get(metadataAfter); len(given) > 0 {
			after = request.NextOf(given[0])
		}
		request.SetPageHeaders(h, c.URL, p, more, total, after)
	}
}

func bound(c *Call, name string) *int32 {
	n, err := strconv.ParseInt(c.URL.Query().Get(name), 10, 32)
	if err != nil {
		return nil
	}
	v := int32(n)
	return &v
}

func okStatus(given string) (int, bool) {
	switch n, _ := strconv.Atoi(given); n {
	case http.StatusOK, http.StatusCreated, http.StatusAccepted, http.StatusNoContent:
		return n, true
	default:
		return 0, false
	}
}
