package node

import (
	"fmt"
	"strconv"
)

// phaseFromEnv reads the flag of ADR-003's migration, LEASESTORM_API_LEASES or its older name XG2G_V3_API_LEASES. True selects phase 1,
// in which the API acquires the lease of the service. False, the default, selects phase 2. Show the warnings to the operator.
func phaseFromEnv(getenv func(string) string) (apiLeases bool, warnings []string, err error) {
	if getenv("XG2G_IDEM_SECRET") != "" {
		warnings = append(warnings, "XG2G_IDEM_SECRET is ignored: idempotency keys need no secret")
	}
	values := map[string]bool{}
	for _, name := range []string{"XG2G_V3_API_LEASES", "LEASESTORM_API_LEASES"} {
		text := getenv(name)
		if text == "" {
			continue
		}
		if apiLeases, err = strconv.ParseBool(text); err != nil {
			return false, warnings, fmt.Errorf("%s is %q; it must be true or false", name, text)
		}
		values[name] = apiLeases
	}
	if len(values) == 2 && values["XG2G_V3_API_LEASES"] != values["LEASESTORM_API_LEASES"] {
		return false, warnings, fmt.Errorf("LEASESTORM_API_LEASES and XG2G_V3_API_LEASES contradict each other: unset one")
	}
	return apiLeases, warnings, nil
}
