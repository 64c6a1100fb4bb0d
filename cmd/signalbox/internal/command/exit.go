package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/session"
	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/settings"
	"github.com/signalbox-dev/signalbox/internal/client"
)

// The exit statuses. docs/reference/cli.md documents them.
const (
	exitOK          = 0
	exitError       = 1
	exitUsage       = 2
	exitNotFound    = 3
	exitLogin       = 4
	exitForbidden   = 5
	exitConflict    = 6
	exitRateLimit   = 7
	exitUnavailable = 8
	exitEnded       = 9
	exitInterrupted = 130
)

// errTimeout reports that the time of --timeout is over.
var errTimeout = errors.New("the time of --timeout is over")

// NotFoundError reports a name that no object has.
type NotFoundError struct{ Problem string }

// Error implements error.
func (e *NotFoundError) Error() string { return e.Problem }

// EndedError reports that a job did not end as it was waited for.
type EndedError struct{ Problem string }

// Error implements error.
func (e *EndedError) Error() string { return e.Problem }

// StatusError reports that the user's own command ended with another status than 0. The log has what the command printed, so that nothing
// is added.
type StatusError struct{ Status int }

// Error implements error.
func (e *StatusError) Error() string {
	return fmt.Sprintf("the command ended with status %d", e.Status)
}

// LinesError reports several problems of what the user wrote, each with a line of its own.
type LinesError struct{ Lines []string }

// Error implements error.
func (e *LinesError) Error() string { return strings.Join(e.Lines, "\n") }

// exitCode returns the exit status for the error of a command.
func exitCode(ctx context.Context, err error) int {
	refused, isResponse := errors.AsType[*client.Error](err)
	own, isCommand := errors.AsType[*StatusError](err)
	switch {
	case err == nil:
		return exitOK
	case ctx.Err() != nil:
		return exitInterrupted
	case isCommand:
		return own.Status
	case as[*session.UsageError](err) || as[*LinesError](err) || as[*RejectedError](err) || errors.Is(err, settings.ErrAddress):
		return exitUsage
	case as[*session.LoginError](err):
		return exitLogin
	case as[*NotFoundError](err) || errors.Is(err, settings.ErrNoContext):
		return exitNotFound
	case as[*EndedError](err):
		return exitEnded
	case errors.Is(err, output.ErrNoColumn):
		return exitUsage
	case isResponse:
		return exitOfStatus(refused.Status)
	case as[*client.UnreachableError](err), errors.Is(err, errTimeout), client.Retryable(err):
		return exitUnavailable
	}
	return exitError
}

func as[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

func exitOfStatus(status int) int {
	switch {
	case status == http.StatusBadRequest || status == http.StatusUnprocessableEntity:
		return exitUsage
	case status == http.StatusNotFound:
		return exitNotFound
	case status == http.StatusUnauthorized:
		return exitLogin
	case status == http.StatusForbidden:
		return exitForbidden
	case status == http.StatusConflict:
		return exitConflict
	case status == http.StatusTooManyRequests:
		return exitRateLimit
	case status >= http.StatusInternalServerError && status != http.StatusNotImplemented:
		return exitUnavailable
	}
	return exitError
}

// report prints the error of a command to standard error and returns the exit status.
func (t *tool) report(ctx context.Context, err error) int {
	code := exitCode(ctx, err)
	if err == nil || as[*StatusError](err) && ctx.Err() == nil {
		return code
	}
	if code == exitInterrupted {
		fmt.Fprintln(t.Err, "signalbox: interrupted")
		return code
	}
	problem := described(err, code)
	if t.Output == string(output.JSON) || t.Output == string(output.Lines) {
		raw, _ := json.Marshal(map[string]any{"error": problem})
		fmt.Fprintln(t.Err, string(raw))
		return code
	}
	lines := []string{problem.Detail}
	if many, ok := errors.AsType[*LinesError](err); ok {
		lines = many.Lines
	}
	if job, ok := errors.AsType[*RefusedJobError](err); ok {
		lines = job.Problems
	}
	for _, line := range lines {
		fmt.Fprintln(t.Err, "signalbox:", output.Printable(line))
	}
	if problem.Hint != "" {
		fmt.Fprintln(t.Err, "  "+output.Printable(problem.Hint))
	}
	return code
}

// problem is an error as it is printed, with -o json as JSON.
type problem struct {
	Code      string `json:"code"`
	Status    int    `json:"status"`
	Detail    string `json:"detail"`
	RequestID string `json:"request_id"`
	Hint      string `json:"hint"`
}

// codeOf returns the code of an error that is not the server's, by its exit status.
func codeOf(status int) string {
	switch status {
	case exitUsage:
		return "usage"
	case exitNotFound:
		return "not_found"
	case exitLogin:
		return "login_required"
	case exitUnavailable:
		return "unreachable"
	case exitEnded:
		return "ended"
	}
	return "error"
}

func described(err error, code int) problem {
	refused, ok := errors.AsType[*client.Error](err)
	if as[*RejectedError](err) {
		return problem{Code: "rejected", Detail: err.Error()}
	}
	if !ok {
		return problem{Code: codeOf(code), Detail: err.Error()}
	}
	// The text around that of the response stays, such as what was not done.
	text := strings.Replace(err.Error(), refused.Error(), detail(refused), 1)
	p := problem{Code: refused.Code, Status: refused.Status, Detail: text, RequestID: refused.RequestID}
	if job, ok := errors.AsType[*RefusedJobError](err); ok {
		p.Hint = job.Remedy
		return p
	}
	if mended, ok := errors.AsType[*RemedyError](err); ok {
		p.Hint = mended.Remedy
		return p
	}
	switch refused.Code {
	case "deployment_suspended":
		p.Hint = "resume it: signalbox deployments resume"
		return p
	case "maintenance":
		p.Hint = "the installation is in maintenance; try again later"
		return p
	}
	switch refused.Status {
	case http.StatusUnauthorized:
		p.Hint = "log in again: signalbox login"
	case http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusBadGateway:
		p.Hint = "try again later"
	case http.StatusInternalServerError:
		p.Hint = "this is a defect of the server; report it with the request id " + refused.RequestID
	}
	return p
}

// detail returns the text of an error, with one line for each invalid field of a request.
func detail(e *client.Error) string {
	var fields []struct {
		Loc []any  `json:"loc"`
		Msg string `json:"msg"`
	}
	if json.Unmarshal([]byte(e.Detail), &fields) != nil || len(fields) == 0 {
		return e.Detail
	}
	texts := make([]string, len(fields))
	for i, f := range fields {
		texts[i] = place(f.Loc) + ": " + f.Msg
	}
	return strings.Join(texts, "; ")
}

// place returns the place of a field without the part of the request: ["body", "spec", 0] is spec.0.
func place(loc []any) string {
	parts := make([]string, 0, len(loc))
	for _, part := range loc[min(1, len(loc)):] {
		parts = append(parts, fmt.Sprint(part))
	}
	return strings.Join(parts, ".")
}
