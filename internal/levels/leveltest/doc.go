// Package leveltest holds what the ports of package levels must do, as tests: [RunBarrier], [RunBuilds],
// [RunCorpora],
// [RunMembers] and [RunPlans]. An implementation passes them in its own test.
//
// [Memory] implements all of them in memory, for the tests of other packages. [FlakyBarrier], [FlakyBuilds],
// [FlakyCorpora] and [FlakyPlans] make calls fail, before their effect or after it, by a schedule.
package leveltest
