package httpapi

import (
	"bufio"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/metric"
)

// exportFile is a temporary file without a name, so that nothing is left of it if this process is killed.
type exportFile struct {
	file       *os.File
	out        *bufio.Writer
	size, most int64
}

// newExportFile returns an empty file that gets at most the given number of bytes.
func newExportFile(most int64) (*exportFile, error) {
	file, err := os.CreateTemp("", "signalbox-export-*")
	if err != nil {
		return nil, fmt.Errorf("create the file of an export: %w", err)
	}
	f := &exportFile{file: file, out: bufio.NewWriterSize(file, 64<<10), most: most}
	if err := os.Remove(file.Name()); err != nil {
		f.close()
		return nil, fmt.Errorf("unlink the file of an export: %w", err)
	}
	return f, nil
}

// Write implements io.Writer.
func (f *exportFile) Write(p []byte) (int, error) {
	if f.size+int64(len(p)) > f.most {
		return 0, fault.New(fault.Refused, "export_size", "the file would have more than %d bytes; export fewer metrics at a time, with keys", f.most)
	}
	f.size += int64(len(p))
	return f.out.Write(p)
}

// send writes the file to the client.
func (f *exportFile) send(w *fileResponse) error {
	if err := f.out.Flush(); err != nil {
		return fmt.Errorf("write the file of an export: %w", err)
	}
	if _, err := f.file.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("read the file of an export: %w", err)
	}
	w.Header().Set("Content-Length", strconv.FormatInt(f.size, 10))
	w.begin()
	for left := f.size; left > 0; left -= min(left, sendPart) {
		w.extend()
		if _, err := io.CopyN(w, f.file, min(left, sendPart)); err != nil {
			return fmt.Errorf("send an export: %w", err)
		}
	}
	return nil
}

// close deletes the file.
func (f *exportFile) close() { _ = f.file.Close() }

// table writes the points of an export. A table that is not closed is not a complete file.
type table interface {
	add(key string, p metric.Seen) error
	close() error
}

func newTable(format string, w io.Writer) table {
	if format == formatParquet {
		return &parquetTable{parquet.NewGenericWriter[parquetRow](w, parquet.Compression(&parquet.Snappy), parquet.MaxRowsPerRowGroup(exportPage),
			parquet.CreatedBy("signalbox", "", ""))}
	}
	t := &csvTable{out: csv.NewWriter(w)}
	_ = t.out.Write([]string{"key", "step", "value", "time", "attempt"}) // close returns the error
	return t
}

// csvTable writes CSV as in RFC 4180, with one line for each point.
type csvTable struct{ out *csv.Writer }

func (t *csvTable) add(key string, p metric.Seen) error {
	err := t.out.Write([]string{
		plainText(key), strconv.FormatInt(p.Step, 10), numberText(p.Value), time.UnixMicro(p.Micros).UTC().Format(exportTime),
		strconv.Itoa(int(p.Attempt)),
	})
	if err != nil {
		return fmt.Errorf("write a line of CSV: %w", err)
	}
	return nil
}

func (t *csvTable) close() error {
	t.out.Flush()
	if err := t.out.Error(); err != nil {
		return fmt.Errorf("write CSV: %w", err)
	}
	return nil
}

// plainText returns a text that a spreadsheet does not take for a formula: an apostrophe is put before one that begins
// with a character that begins formulas.
func plainText(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r\n", rune(text[0])) {
		return "'" + text
	}
	return text
}

// numberText returns a number so that reading it gives the same number. NaN and the infinities are written as in JSON
// responses.
func numberText(x float64) string {
	switch {
	case math.IsInf(x, 1):
		return "Infinity"
	case math.IsInf(x, -1):
		return "-Infinity"
	default:
		return strconv.FormatFloat(x, 'g', -1, 64)
	}
}

// parquetRow is a row of an exported Parquet file.
type parquetRow struct {
	Key     string    `parquet:"key,dict"`
	Step    int64     `parquet:"step,delta"`
	Value   float64   `parquet:"value"`
	Time    time.Time `parquet:"time,timestamp(microsecond)"`
	Attempt int32     `parquet:"attempt"`
}

// parquetTable writes a Parquet file. It holds at most one row group in memory.
type parquetTable struct {
	out *parquet.GenericWriter[parquetRow]
}

func (t *parquetTable) add(key string, p metric.Seen) error {
	row := parquetRow{Key: key, Step: p.Step, Value: p.Value, Time: time.UnixMicro(p.Micros).UTC(), Attempt: p.Attempt}
	if _, err := t.out.Write([]parquetRow{row}); err != nil {
		return fmt.Errorf("write a row of Parquet: %w", err)
	}
	return nil
}

func (t *parquetTable) close() error {
	if err := t.out.Close(); err != nil {
		return fmt.Errorf("write a Parquet file: %w", err)
	}
	return nil
}
