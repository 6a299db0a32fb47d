package node

import "testing"

func TestPhaseFromEnv(t *testing.T) {
	for _, tt := range []struct {
		env      map[string]string
		want     bool
		warnings int
		bad      bool
	}{
		{map[string]string{}, false, 0, false},
		{map[string]string{"LEASESTORM_API_LEASES": "true"}, true, 0, false},
		{map[string]string{"XG2G_V3_API_LEASES": "1"}, true, 0, false},
		{map[string]string{"XG2G_V3_API_LEASES": "1", "LEASESTORM_API_LEASES": "true"}, true, 0, false},
		{map[string]string{"XG2G_V3_API_LEASES": "1", "LEASESTORM_API_LEASES": "0"}, false, 0, true},
		{map[string]string{"LEASESTORM_API_LEASES": "maybe"}, false, 0, true},
		{map[string]string{"XG2G_IDEM_SECRET": "s"}, false, 1, false},
	} {
		got, warnings, err := phaseFromEnv(func(k string) string { return tt.env[k] })
		if got != tt.want || len(warnings) != tt.warnings || (err != nil) != tt.bad {
			t.Errorf("%v: %v %v %v", tt.env, got, warnings, err)
		}
	}
}
