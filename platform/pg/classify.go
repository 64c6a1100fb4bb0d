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

// The SQLSTATEs that the product tells apart.
const (
	codeUnique        = "23505"
	codeForeignKey    = "23503"
	codeExclusion     = "23P01"
	codeSerialization = "40001"
	codeDeadlock      = "40P01"
	codeLockWait      = "55P03"
	codeCanceled      = "57014"
	codeIdleInTx      = "25P03"
	codeTooLong       = "22001"
	codeBadByte       = "22021"
	codeBadUnicode    = "22P05"
	codeBadJSONText   = "22030"
)

// retryAfter is what a caller is told to wait when Postgres is out of reach.
const retryAfter = time.Second

// Classify turns what Postgres or the driver says into a fault that may be shown;
// the cause stays wrapped for the log. What has no class (a bug, most likely)
// comes back as it is, and so do faults and the end of ctx.
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
		return unavailable("database_unreachable", "the database is out of reach").Wrap(err)
	}
	return err
}

func classifyState(state string, err error) error {
	switch state {
	case codeUnique, codeExclusion:
		return fault.New(fault.Conflict, "exists", "it exists already").Wrap(err)
	case codeForeignKey:
		return fault.New(fault.Conflict, "in_use", "something else refers to it, or what it refers to is gone").Wrap(err)
	case codeSerialization, codeDeadlock:
		return fault.New(fault.Conflict, "concurrent_change", "it was changed at the same time; try again").WithRetryAfter(retryAfter).Wrap(err)
	case codeCanceled:
		return unavailable("database_timeout", "the database took too long").Wrap(err)
	case codeLockWait:
		return unavailable("database_busy", "it is being changed by another request").Wrap(err)
	case codeBadByte, codeBadUnicode, codeBadJSONText, codeTooLong:
		return fault.New(fault.Refused, "bad_text", "a text holds characters that cannot be stored, or is too long").Wrap(err)
	}
	if lostState(state) {
		return unavailable("database_unreachable", "the database is out of reach").Wrap(err)
	}
	return err
}

func unavailable(code, msg string) *fault.Error {
	return fault.New(fault.Unavailable, code, "%s", msg).WithRetryAfter(retryAfter)
}

// lostState is about the server as a whole: shutting down, starting, full, or
// having ended this connection.
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

// IsRetryable reports that the transaction lost against another one and was
// rolled back whole, so that running it again is safe.
func IsRetryable(err error) bool {
	return code(err) == codeSerialization || code(err) == codeDeadlock
}

// IsUnique reports a violation of the unique constraint or index of that name;
// of any one if constraint is empty.
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
