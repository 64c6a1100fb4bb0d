package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/spf13/cobra"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/session"
	"github.com/signalbox-dev/signalbox/internal/client"
)

// topPause is the pause between two readings of the cluster.
const topPause = 2 * time.Second

func (t *tool) top() *cobra.Command {
	return &cobra.Command{
		Use: "top", Short: "Show pools, nodes, running jobs and the queue, full screen", Args: noArguments,
		Long:    "Show the pools, the nodes, the running jobs and the queue, full screen, read again every two seconds. The arrow keys and the page keys scroll, q ends it.",
		Example: "signalbox cluster top",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !t.OutTerminal || !t.InTerminal {
				return session.Usage("cluster top needs a terminal; use cluster pools, cluster nodes and cluster queue")
			}
			c, err := t.Client()
			if err != nil {
				return err
			}
			p, err := t.Printer()
			if err != nil {
				return err
			}
			ctx, cancel := context.WithCancel(cmd.Context())
			defer cancel()
			m := &topScreen{ctx: ctx, t: t, c: c, p: p}
			if m.err = m.read(); m.err != nil {
				return m.err // before the screen is cleared
			}
			_, err = tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(t.terminal), tea.WithOutput(t.Out), tea.WithoutSignalHandler()).Run()
			if errors.Is(err, tea.ErrProgramKilled) && cmd.Context().Err() != nil {
				return cmd.Context().Err()
			}
			return err
		},
	}
}

// topScreen is the screen of cluster top.
type topScreen struct {
	ctx context.Context //nolint:containedctx // a tea.Model has no context of its own
	t   *tool
	c   *client.Client
	p   *output.Printer

	parts         []topPart
	at            time.Time
	err           error // why the last reading failed
	width, height int
	scroll        int
}

// topPart is a table of the screen.
type topPart struct {
	title   string
	columns []output.Column
	rows    []json.RawMessage
}

// topRead is the message that a reading has ended.
type topRead struct {
	parts []topPart
	err   error
}

// maxTopRows bounds the rows of a table.
const maxTopRows = 200

// load reads the tables.
func (m *topScreen) load() ([]topPart, error) {
	var cluster struct {
		Pools []json.RawMessage `json:"pools"`
	}
	if err := m.c.Get(m.ctx, "/api/cluster", nil, &cluster); err != nil {
		return nil, err
	}
	parts := []topPart{{title: "pools", columns: poolColumns(), rows: cluster.Pools}}
	jobs := jobKind()
	for _, list := range []struct {
		title string
		k     kind
		query url.Values
	}{
		{"nodes", nodeKind(), nil}, {"running jobs", jobs, url.Values{"state": {"running"}}}, {"queue", queueKind(), nil},
	} {
		found, err := m.c.List(m.ctx, list.k.path, list.query, maxTopRows)
		if err != nil {
			return nil, err
		}
		parts = append(parts, topPart{title: list.title, columns: list.k.columns, rows: found.Rows})
	}
	return parts, nil
}

func (m *topScreen) read() error {
	parts, err := m.load()
	if err == nil {
		m.parts, m.at = parts, m.t.now()
	}
	return err
}

// reload reads the tables again, after the pause.
func (m *topScreen) reload() tea.Cmd {
	return tea.Tick(topPause, func(time.Time) tea.Msg {
		parts, err := m.load()
		return topRead{parts: parts, err: err}
	})
}

// Init implements tea.Model.
func (m *topScreen) Init() tea.Cmd { return m.reload() }

// Update implements tea.Model.
func (m *topScreen) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case topRead:
		if m.err = msg.err; m.err == nil {
			m.parts, m.at = msg.parts, m.t.now()
		}
		return m, m.reload()
	case tea.KeyPressMsg:
		switch msg.String() {
		case "q", "ctrl+c", "esc":
			return m, tea.Quit
		case "down", "j":
			m.scroll++
		case "up", "k":
			m.scroll--
		case "pgdown", "space":
			m.scroll += m.height
		case "pgup":
			m.scroll -= m.height
		case "home":
			m.scroll = 0
		}
	}
	return m, nil
}

// View implements tea.Model.
func (m *topScreen) View() tea.View {
	lines := m.lines()
	room := max(m.height-1, 1)
	m.scroll = min(max(m.scroll, 0), max(len(lines)-room, 0))
	shown := lines[m.scroll:min(m.scroll+room, len(lines))]
	v := tea.NewView(strings.Join(append([]string{m.status(len(lines) - m.scroll - len(shown))}, shown...), "\n"))
	v.AltScreen = true
	return v
}

// status is the first line: the time of the reading, or why the last one failed.
func (m *topScreen) status(below int) string {
	text := m.c.Base() + "  " + m.at.Format(time.TimeOnly)
	if m.err != nil {
		text += "  not current: " + output.Printable(m.err.Error())
	}
	if below > 0 {
		text += fmt.Sprintf("  %d more lines below", below)
	}
	return text + "  (q ends)"
}

// lines draws all tables.
func (m *topScreen) lines() []string {
	var lines []string
	for _, part := range m.parts {
		lines = append(lines, "", fmt.Sprintf("%s (%d)", part.title, len(part.rows)))
		var b bytes.Buffer
		p := *m.p
		p.Out, p.Width, p.Format, p.Columns, p.Filter = &b, m.width, output.Table, nil, nil
		if len(part.rows) == 0 {
			continue
		}
		if err := p.Rows(part.columns, part.rows); err != nil {
			lines = append(lines, output.Printable(err.Error()))
			continue
		}
		lines = append(lines, strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")...)
	}
	return lines
}
