package transfer

import (
	"context"
	"fmt"
	"io"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/output"
)

// Progress shows how much of each file has arrived.
type Progress struct {
	// Out is standard error. Terminal states whether it is a terminal.
	Out      io.Writer
	Terminal bool
	Quiet    bool

	bars *mpb.Progress
}

// nameWidth is the room for the name of a file beside its bar.
const nameWidth = 32

// File begins the progress of a file. Count receives the number of bytes that have arrived so far; end ends the progress.
func (p *Progress) File(path string, size int64) (count func(have int64), end func(done bool)) {
	name := output.Printable(path)
	switch {
	case p.Quiet:
		return func(int64) {}, func(bool) {}
	case !p.Terminal:
		return p.lines(name, size)
	}
	if p.bars == nil {
		// Complete bars leave the part of the screen that is drawn again and again: a download can have many files.
		p.bars = mpb.New(mpb.WithOutput(p.Out), mpb.PopCompletedMode())
	}
	// A bar with a total would be complete when all bytes were sent, although the response can be a refusal that leads to
	// another try; and one of no bytes would never be.
	bar := p.bars.AddBar(0,
		mpb.PrependDecorators(decor.Name(name, decor.WC{W: nameWidth, C: decor.DindentRight})),
		mpb.AppendDecorators(decor.CountersKibiByte("% .1f / % .1f"), decor.AverageSpeed(decor.SizeB1024(0), "  % .1f"),
			decor.AverageETA(decor.ET_STYLE_GO, decor.WC{W: len("  1h00m00s")})))
	bar.SetTotal(size, false)
	return bar.SetCurrent, func(done bool) {
		if done {
			bar.SetCurrent(size)
			bar.SetTotal(size, true)
		} else {
			bar.Abort(false)
		}
	}
}

// large is the size in bytes from which the progress of a file has lines, and that of work on a local file is shown.
const large = 64 << 20

// Work begins the progress of work that reads a local file, such as a digest. It is shown for large files only. The name states
// the work too.
func (p *Progress) Work(name string, size int64) (count func(have int64), end func(done bool)) {
	if size < large {
		return func(int64) {}, func(bool) {}
	}
	count, end = p.File(name, size)
	if !p.Terminal {
		end = func(bool) {}
	}
	return count, end
}

// tenths is the number of lines for a file.
const tenths = 10

// lines prints a line for each tenth of a large file.
func (p *Progress) lines(name string, size int64) (count func(have int64), end func(done bool)) {
	var printed int64
	count = func(have int64) {
		if size < large {
			return
		}
		if tenth := have * tenths / size; tenth > printed && tenth < tenths {
			printed = tenth
			fmt.Fprintf(p.Out, "%s: %d%% of %s\n", name, tenth*tenths, output.Size(size))
		}
	}
	return count, func(done bool) {
		if done {
			fmt.Fprintf(p.Out, "%s: %s\n", name, output.Size(size))
		}
	}
}

// Wait draws the bars for the last time.
func (p *Progress) Wait() {
	if p.bars != nil {
		p.bars.Wait()
	}
}

// NewReader returns a reader that calls count with the number of bytes that were read so far.
func NewReader(r io.Reader, count func(have int64)) io.Reader {
	return io.TeeReader(r, &counter{count: count})
}

// Until returns a reader that fails when a context ends, so that an interrupted command does not read a large file to its end.
func Until(ctx context.Context, r io.Reader) io.Reader {
	return readerFunc(func(p []byte) (int, error) {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		return r.Read(p)
	})
}

// readerFunc is a function that reads.
type readerFunc func(p []byte) (int, error)

// Read implements io.Reader.
func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
