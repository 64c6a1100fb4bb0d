package httpguard

import "time"

// SetLinger sets the bounds of what the listener's connections read after their last response.
func (l *Listener) SetLinger(bytes int64, whole, pause time.Duration) {
	l.linger = linger{bytes: bytes, time: whole, pause: pause}
}
