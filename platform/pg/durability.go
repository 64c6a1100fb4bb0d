package pg

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/process"
)

// Durability refuses writes while the server may lose committed rows, which is the case while its setting fsync or
// full_page_writes is off. Reads continue. Both settings can be changed while the server runs, so Run reads them
// repeatedly. A third setting matters, synchronous_commit. Open sets it as a parameter of each connection, which no
// setting of the server, the database or the role overrides.
type Durability struct {
	log    *slog.Logger
	schema string
	gauge  metric.Int64Gauge
	lossy  atomic.Bool
	// The function record stores a change of the field lossy. The field recorded is the value that was stored last.
	record   func(ctx context.Context, off []string) error
	recorded bool
}

// DurabilityEvery is the interval at which Run reads the settings.
const DurabilityEvery = 10 * time.Second

// NewDurability returns a Durability for Config.Durability. It assumes that the server is safe, which Open checks.
// After each change, Check calls record with the settings that are off now, and repeats the call until it succeeds.
// record may be nil. While writes are refused, record can write in a transaction that begins with AllowWrites.
func NewDurability(
	schema string, log *slog.Logger, meters metric.MeterProvider, record func(ctx context.Context, off []string) error,
) (*Durability, error) {
	gauge, err := meters.Meter("pg").Int64Gauge("database_durable",
		metric.WithDescription("1 if the server writes each commit to disk; 0 if it does not, and writes are refused"))
	if err != nil {
		return nil, fmt.Errorf("create the gauge database_durable: %w", err)
	}
	return &Durability{log: log, schema: schema, gauge: gauge, record: record}, nil
}

// AllowWrites lets a transaction write although its connection refuses writes. It must be the transaction's first
// statement.
func AllowWrites(ctx context.Context, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, `SET TRANSACTION READ WRITE`); err != nil {
		return fmt.Errorf("allow a transaction to write: %w", err)
	}
	return nil
}

// Run checks the settings every DurabilityEvery until ctx is done.
func (d *Durability) Run(ctx context.Context, clk clock.Clock, q Querier) error {
	return process.Loop(ctx, clk, DurabilityEvery, 0, process.Logged(d.log, d.schema+".durability", func(ctx context.Context) error {
		return d.Check(ctx, q)
	}))
}

// Check reads the settings, and refuses or allows writes from then on. If it cannot read them, nothing changes. It must
// not be called concurrently.
func (d *Durability) Check(ctx context.Context, q Querier) error {
	off, err := unsafeSettings(ctx, q)
	if err != nil {
		return err
	}
	durable, lossy := int64(1), len(off) > 0
	if lossy {
		durable = 0
	}
	d.gauge.Record(ctx, durable, metric.WithAttributes(attribute.String("schema", d.schema)))
	switch was := d.lossy.Swap(lossy); {
	case !was && lossy:
		d.log.ErrorContext(ctx, "the Postgres server may lose committed rows; writes are refused until its settings are on again",
			"schema", d.schema, "off", strings.Join(off, ", "))
	case was && !lossy:
		d.log.InfoContext(ctx, "the Postgres server is safe again; writes are allowed", "schema", d.schema)
	}
	if d.record == nil || d.recorded == lossy {
		return nil
	}
	if err := d.record(ctx, off); err != nil {
		return fmt.Errorf("record that the durability of the server has changed: %w", err)
	}
	d.recorded = lossy
	return nil
}

// unsafeSettings returns the names of the settings that are off but must be on.
func unsafeSettings(ctx context.Context, q Querier) ([]string, error) {
	rows, err := q.Query(ctx, `SELECT name FROM pg_settings WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit')
		AND setting = 'off' ORDER BY name`)
	if err != nil {
		return nil, fmt.Errorf("read the server settings: %w", err)
	}
	off, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("read the server settings: %w", err)
	}
	return off, nil
}

// refusing is the key in a connection's custom data that is set while the connection refuses writes.
const refusing = "signalbox.refusing"

// prepare makes a connection refuse or allow writes before it leaves the pool. Postgres itself refuses the writes,
// so none is missed. prepare returns false if the connection is broken.
func (d *Durability) prepare(ctx context.Context, conn *pgx.Conn) (bool, error) {
	data := conn.PgConn().CustomData()
	_, refuses := data[refusing]
	want := d.lossy.Load()
	if want == refuses {
		return true, nil
	}
	sql := `SET default_transaction_read_only = off`
	if want {
		sql = `SET default_transaction_read_only = on`
	}
	if _, err := conn.Exec(ctx, sql); err != nil {
		return false, ctx.Err() // the pool closes the connection and takes another one
	}
	if want {
		data[refusing] = true
	} else {
		delete(data, refusing)
	}
	return true, nil
}
