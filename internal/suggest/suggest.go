// Package suggest proposes the word that a user may have meant.
package suggest

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Command returns "did you mean …? " with the commands of cmd that are nearest to typed, or "" if none is near.
func Command(cmd *cobra.Command, typed string) string { return question(cmd, "", typed) }

// Flag does the same for err, if err is that of a flag that cmd does not have.
func Flag(cmd *cobra.Command, err error) string {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return ""
	}
	flags := &cobra.Command{} // cobra measures distances between names of commands only
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			flags.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
		}
	})
	return question(flags, "--", unknown.GetSpecifiedName())
}

func question(cmd *cobra.Command, dashes, typed string) string {
	cmd.SuggestionsMinimumDistance = 2
	near := cmd.SuggestionsFor(typed)
	if len(near) == 0 {
		return ""
	}
	return "did you mean " + dashes + strings.Join(near, " or "+dashes) + "? "
}
