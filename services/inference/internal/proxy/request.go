package proxy

import (
	"net/http"
	"net/url"

	"github.com/signalbox-dev/signalbox/platform/httprelay"
)

// request is what a caller requests, whether package net/http has read it or not.
type request struct {
	method string
	url    *url.URL
	header httprelay.Header
	length int64 // of the body, -1 if unknown
	// http11 is true if the caller speaks HTTP/1.1, and older if it speaks HTTP/1.0. Otherwise it speaks HTTP/2.
	http11, older bool

	sent    string  // the path and query of a plain request, as they were sent
	address url.URL // what url points to, in a plain request
}

func requestOf(r *http.Request) *request {
	return &request{
		method: r.Method, url: r.URL, header: httprelay.HeaderOf(r.Header), length: r.ContentLength,
		http11: r.ProtoMajor == 1 && r.ProtoMinor >= 1, older: !r.ProtoAtLeast(1, 1),
	}
}
