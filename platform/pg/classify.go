package pg

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

// The SQLSTATE codes that Classify and IsRetryable distinguish.
const (
	codeUnique        = "23505"
	codeForeignKey    = "23503"
	codeExclusion     = "23P01"
	codeSerialization = "40001"
	codeDeadlock      = "40P01"
	codeLockWait      = "55P03"
	codeCanceled      = "57014"
	codeIdleInTx      = "25P03"
	codeReadOnly      = "25006"
	codeTooLong       = "22001"
	codeBadByte       = "22021"
	codeBadUnicode    = "22P05"
	codeBadJSONText   = "22030"
)

// retryAfter is the Retry-After of temporary database failures.
const retryAfter = time.Second

// Classify converts an error of Postgres or the driver into a fault that may be shown to clients; the cause stays
// wrapped for the log. It returns faults, context errors and unknown errors unchanged.
func Classify(err error) error {
	var f *fault.Error
	switch {
	case err == nil || errors.As(err, &f):
		return err
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return err
	}
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok {
		return classifyState(pgErr.Code, err)
	}
	if lost(err) {
		return unavailable("database_unreachable", "the database is unreachable").Wrap(err)
	}
	return err
}

func classifyState(state string, err error) error {
	switch state {
	case codeUnique, codeExclusion:
		return fault.New(fault.Conflict, "exists", "the resource already exists").Wrap(err)
	case codeForeignKey:
		return fault.New(fault.Conflict, "in_use", "another resource refers to this one, or this one refers to a resource that does not exist").Wrap(err)
	case codeSerialization, codeDeadlock:
		return fault.New(fault.Conflict, "concurrent_change", "the resource was changed concurrently; try again").WithRetryAfter(retryAfter).Wrap(err)
	case codeCanceled:
		return unavailable("database_timeout", "the database request timed out").Wrap(err)
	case codeReadOnly:
		return unavailable("database_read_only", "the database accepts no writes: its setting fsync or full_page_writes is off, or it is a standby").Wrap(err)
	case codeLockWait:
		return unavailable("database_busy", "another request is changing the resource").Wrap(err)
	case codeBadByte, codeBadUnicode, codeBadJSONText, codeTooLong:
		return fault.New(fault.Refused, "bad_text", "a text is too long or contains characters that cannot be stored").Wrap(err)
	}
	if lostState(state) {
		return unavailable("database_unreachable", "the database is unreachable").Wrap(err)
	}
	return err
}

func unavailable(code, msg string) *fault.Error {
	return fault.New(fault.Unavailable, code, "%s", msg).WithRetryAfter(retryAfter)
}

// lostState reports whether a SQLSTATE concerns the server and not the statement: the server is shutting down,
// starting or out of resources, or has closed this connection.
func lostState(state string) bool {
	return strings.HasPrefix(state, "08") || strings.HasPrefix(state, "57P") || strings.HasPrefix(state, "53") ||
		strings.HasPrefix(state, "58") || state == codeIdleInTx
}

func lost(err error) bool {
	var connect *pgconn.ConnectError
	var network net.Error
	return errors.As(err, &connect) || errors.As(err, &network) || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) || pgconn.SafeToRetry(err)
}

// IsRetryable reports whether the transaction conflicted with another one and was rolled
// back completely, so that it is safe to run it again.
func IsRetryable(err error) bool {
	return code(err) == codeSerialization || code(err) == codeDeadlock
}

// IsUnique reports whether err is a violation of the given unique constraint or index. An empty constraint matches
// any.
func IsUnique(err error, constraint string) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && pgErr.Code == codeUnique && (constraint == "" || pgErr.ConstraintName == constraint)
}

func code(err error) string {
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pgErr.Code
	}
	return ""
}
