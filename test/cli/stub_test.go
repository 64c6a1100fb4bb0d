package cli

import "testing"

func (w *world) tour(t *testing.T)            {}
func (w *world) deviceLogin(t *testing.T)     {}
func (w *world) interruptedPull(t *testing.T) {}
func (w *world) restart(t *testing.T)         {}
