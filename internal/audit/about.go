package audit

import "fmt"

// AboutJSON explains a Report in JSON, for the help of the commands.
const AboutJSON = `With --json the report is an object: layout; ids, how many are of the layout; the
times of the first and the last ID; passed, what was skipped; wrong, each fault with
its count and first findings; workers; gaps; and notes, which may be faults.`

// About explains what an audit of a list reports, for the help of the commands.
var About = fmt.Sprintf(`Reads IDs from files or standard input: a list, a JSON array, what psql or mysql
print; with --column a column of CSV or a table, with --field a field of JSON
objects. Text that is compressed by gzip is read, too. It reports
- whether the IDs were rounded, for example by JavaScript or a spreadsheet. If
  they were, the rest of the report is not about the IDs that were issued;
- IDs that occur more than once, with their lines;
- lines that are not an ID, and IDs that are not of the layout, or of the future;
- IDs over a second older than the previous ID of their worker, in input order: a
  note, or with --order a fault;
- for each worker: its first and last ID, how many, the most in a second, spent
  (fully used) ticks, and steps back;
- the longest times without an ID;
- workers whose sequence numbers take turns within a tick, and low bits that put
  most rows on one shard (notes only).
Headers, NULL, quotes, brackets, separators of thousands and what MongoDB, Java and
spreadsheets write around a number are skipped. The IDs are read in the form that
most of the first thousand have.

It keeps all IDs in memory, 16 bytes each and a tenth more (1 million take 45 MB
in all, 10 million 185 MB), and accepts at most %d million. Audit a larger table in
parts, by the ranges of IDs that "snowflake range" prints: they do not overlap.`, Most/1_000_000)
