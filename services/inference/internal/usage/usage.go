// Package usage reads from bodies what the record of a call contains: the model, the numbers of tokens, the reason why
// the response ended, and whether an event stream reports an error. It reads a body in parts while the body is relayed.
// It changes no byte, needs no more memory for a larger body, and ignores what it does not understand: an unknown,
// malformed, cut or too compressed body only leaves values unset. Numbers of tokens are never estimated.
package usage

import "github.com/signalbox-dev/signalbox/platform/httprelay"

// Found is what a response contains. A text is empty, and a number nil, if the response does not contain it.
type Found struct {
	Model  string
	Finish string
	// Prompt and Completion are numbers of tokens.
	Prompt, Completion *int32
	// Failed is true if the response is an event stream with an event that reports an error.
	Failed bool
}

// Response reads the body of a response, after Start. Its methods must not be called concurrently.
type Response struct {
	stream bool
	events events    // its scanner also reads a response that is not a stream
	unpack *unpacker // nil without a Content-Encoding
}

// Start begins to read the body of a response with the given headers. The parameter stream is true if it is an event
// stream. The function defect is called if a decompressor panics, at most once.
func (r *Response) Start(stream bool, h httprelay.Header, defect func(error)) {
	*r = Response{stream: stream}
	r.events.json.start(top)
	if encoding := encodingOf(h); encoding != "" {
		r.unpack = &unpacker{encoding: encoding, to: r.takePlain, defect: defect}
	}
}

// Take reads the next part of the body. It does not keep p.
func (r *Response) Take(p []byte) {
	if r.unpack != nil {
		r.unpack.take(p)
		return
	}
	r.takePlain(p)
}

// takePlain reads the next part of a body without Content-Encoding.
func (r *Response) takePlain(p []byte) {
	if r.stream {
		r.events.take(p)
		return
	}
	r.events.json.take(p)
}

// AtBorder reports whether the response is an event stream without Content-Encoding that so far ends with a complete
// event, so that another event may follow.
func (r *Response) AtBorder() bool { return r.stream && r.unpack == nil && r.events.atBorder() }

// Close ends the reading and returns what the body contained. It may be called again, and before AtBorder.
func (r *Response) Close() Found {
	if r.unpack != nil {
		r.unpack.close()
	}
	found := r.events.json.found.result()
	found.Failed = r.stream && (r.events.failed || r.events.json.found.failed)
	return found
}

// Wanted is what a request contains. The model is empty if the request does not contain it.
type Wanted struct {
	Model  string
	Stream bool
}

// Request reads the body of a request, after Start: JSON, or a form of the type multipart/form-data. Its methods must not be called
// concurrently.
type Request struct {
	body   scanner
	form   *form     // nil if the body is not a form
	unpack *unpacker // nil without a Content-Encoding
}

// Start begins to read the body of a request with the given headers. The function defect is called if a decompressor
// panics, at most once.
func (r *Request) Start(h httprelay.Header, defect func(error)) {
	*r = Request{form: newForm(h.Get("Content-Type"))}
	r.body.start(request)
	if encoding := encodingOf(h); encoding != "" {
		r.unpack = &unpacker{encoding: encoding, to: r.takePlain, defect: defect}
	}
}

// Take reads the next part of the body. It does not keep p.
func (r *Request) Take(p []byte) {
	if r.unpack != nil {
		r.unpack.take(p)
		return
	}
	r.takePlain(p)
}

// takePlain reads the next part of a body without Content-Encoding.
func (r *Request) takePlain(p []byte) {
	if r.form != nil {
		r.form.take(p)
		return
	}
	r.body.take(p)
}

// Close ends the reading and returns what the body contained. It may be called again.
func (r *Request) Close() Wanted {
	if r.unpack != nil {
		r.unpack.close()
	}
	if r.form != nil {
		return r.form.wanted
	}
	return Wanted{Model: r.body.found.model, Stream: r.body.found.stream}
}
