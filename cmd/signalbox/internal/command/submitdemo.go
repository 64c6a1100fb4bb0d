package command

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/demo"
	"github.com/signalbox-dev/signalbox/internal/client"
	"github.com/signalbox-dev/signalbox/internal/e2eflow"
)

// demoPatience is the time limit of each step of a demo.
const demoPatience = 5 * time.Minute

// demoJob returns the job that trains the tiny model of the demo. Its dataset is pushed if the installation does not have it.
func (t *tool) demoJob(ctx context.Context, c *client.Client, o submitOptions) (jobFile, error) {
	dataset, err := demo.PushSample(ctx, &e2eflow.Loop{Client: c, Clock: t.Clock, Timeout: demoPatience})
	if err != nil {
		return jobFile{}, err
	}
	const unique = 6                         // letters that tell this job from others
	key := cmp.Or(o.idempotency, t.NewKey()) // a repeat with the same key has the same name
	sum := sha256.Sum256([]byte(key))
	name := "tiny-" + hex.EncodeToString(sum[:])[:unique]
	return t.changeSpec(o, jobFile{spec: demo.SampleJob(name, dataset)})
}

// followDemo draws the exact match of the demo's job until the job has ended, and prints the commands that use the model.
func (t *tool) followDemo(cmd *cobra.Command, c *client.Client, id, name string) error {
	loop := &e2eflow.Loop{Client: c, Clock: t.Clock, Timeout: demoPatience, Job: e2eflow.Job{ID: id}}
	line := spark{to: t.Err, live: t.ErrTerminal && !t.Quiet}
	err := loop.FollowMetrics(cmd.Context(), func(p e2eflow.Point) {
		if p.Key == "val/exact_match" {
			line.add(p)
		}
	})
	line.end()
	if err != nil {
		t.Say("the job continues; signalbox logs %s --follow follows it again", id)
		return err
	}
	last, reached, err := t.await(cmd, c, id, "")
	if err != nil {
		return err
	}
	if err := t.changed(jobKind(), last); err != nil {
		return err
	}
	if !reached {
		return ended(id, last, wanted(""))
	}
	if !line.live {
		t.Say("%s", line.text())
	}
	program := cmp.Or(t.Program, "signalbox")
	t.Say("deploy it:   %[1]s models register %[2]s --run %[2]s && %[1]s deployments create %[2]s --model %[2]s --promote", program, name)
	t.Say("talk to it:  %s chat %s '27+46?'", program, name)
	return nil
}

// spark is a curve in one line of text.
type spark struct {
	to     io.Writer
	live   bool // the line is drawn again with each point
	points []e2eflow.Point
}

// maxSpark is the largest number of points of a spark; the others are left out evenly.
const maxSpark = 60

func (s *spark) add(p e2eflow.Point) {
	s.points = append(s.points, p)
	if len(s.points) > maxSpark {
		kept := s.points[:0]
		for i, p := range s.points {
			if i%2 == 0 {
				kept = append(kept, p)
			}
		}
		s.points = kept
	}
	if s.live {
		fmt.Fprint(s.to, "\r"+s.text())
	}
}

func (s *spark) end() {
	if s.live && len(s.points) > 0 {
		fmt.Fprintln(s.to)
	}
}

// text returns the curve of values from 0 to 1, with the last value and its step.
func (s *spark) text() string {
	if len(s.points) == 0 {
		return "exact match: no value was reported"
	}
	bars := []rune("▁▂▃▄▅▆▇█")
	var b strings.Builder
	for _, p := range s.points {
		at := math.Floor(p.Value * float64(len(bars)))
		b.WriteRune(bars[int(min(max(at, 0), float64(len(bars)-1)))])
	}
	last := s.points[len(s.points)-1]
	return fmt.Sprintf("exact match %s %.2f at step %d", b.String(), last.Value, last.Step)
}
