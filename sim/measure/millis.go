package measure

import (
	"encoding/json"
	"fmt"
	"math"
	"time"
)

// Millis is a duration that JSON holds in milliseconds, with a fraction only if needed.
type Millis time.Duration

// MarshalJSON writes a number.
func (m Millis) MarshalJSON() ([]byte, error) {
	if d := time.Duration(m); d%time.Millisecond == 0 {
		return json.Marshal(d.Milliseconds())
	}
	return json.Marshal(float64(m) / float64(time.Millisecond))
}

// UnmarshalJSON reads a number.
func (m *Millis) UnmarshalJSON(data []byte) error {
	var f float64
	if err := json.Unmarshal(data, &f); err != nil {
		return fmt.Errorf("a time in milliseconds: %w", err)
	}
	ns := math.Round(f * float64(time.Millisecond))
	if math.Abs(ns) > math.MaxInt64/2 {
		return fmt.Errorf("a time in milliseconds: %v is out of range", f)
	}
	*m = Millis(ns)
	return nil
}
