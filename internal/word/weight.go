package word

import "strings"

// FunctionWeight is that of a function word: not zero, since a text may consist of nothing else.
const FunctionWeight = 0.05

// AmbiguousWeight is that of function words of one language that mean something in another.
const AmbiguousWeight = 0.25

const ambiguousWords = `die war hat man son sin fin para pro come era ser sera art bin des long mine own may might`

// commonWeight is that of words that stand in texts on any subject.
const commonWeight = 0.5

// Weight stands in for inverse document frequency: function words, then words common in any text, then by length,
// which goes with rarity in every language (Zipf's law of abbreviation).
func (t Term) Weight() float64 {
	if w, ok := wordClasses[string(t.Text)]; ok {
		return w
	}
	if t.Kind == Number {
		return 0.7
	}
	switch t.Runes {
	case 1:
		return 0.2
	case 2:
		return 0.5
	case 3:
		return 0.8
	case 4:
		return 0.9
	case 5:
		return 1
	default:
		return 1.1
	}
}

// Weight says how much a word tells of what a text is about: next to nothing for function words of the larger
// languages, at most about 1. Of several words it is that of the weightiest; of no word it is 0.
func Weight(word string) float64 {
	weight := 0.0
	EachTerm(word, nil, func(t Term) { weight = max(weight, t.Weight()) })
	return weight
}

// wordClasses holds function words of the languages that most text is written in, and words of English that are common
// whatever the subject. The lists are short on purpose: a word that is missing weighs as its length says.
var wordClasses = classifyWords()

func classifyWords() map[string]float64 {
	classes := make(map[string]float64, 1200)
	for _, w := range strings.Fields(commonEnglish) {
		classes[w] = commonWeight
	}
	for _, list := range functionWords {
		for _, w := range strings.Fields(list) {
			classes[w] = FunctionWeight
		}
	}
	for _, w := range strings.Fields(ambiguousWords) {
		classes[w] = AmbiguousWeight
	}
	return classes
}

var functionWords = []string{
	// English
	`a an the and or but nor so yet if then else than that this these those there here it its he she they them his her
	their we us our you your i me my mine who whom whose which what when where why how is are was were be been being am
	do does did done doing have has had having will would shall should can could may might must not no of in on at by for
	with from to into onto upon about as over under between through during before after above below up down out off again
	further once all any both each few more most other some such only own same too very just also ever because while until
	against since per via within without whether either neither t s don ll re ve d m isn aren wasn doesn didn couldn won`,
	// German
	`der die das den dem des ein eine einer eines einem einen und oder aber nicht ist sind war waren wird werden wurde wurden
	hat haben hatte sein im in am an auf aus bei mit nach von vor zu zum zur für über unter durch um als auch es er sie wir
	ihr ich sich dass wenn wie was wer wo noch nur so kann können mehr`,
	// French
	`le la les un une des du de et ou mais ne pas est sont été être avoir avait ont ce cette ces il elle ils elles nous vous je
	se sa son ses leur leurs que qui quoi dont où dans sur sous par pour avec sans en au aux comme plus si y`,
	// Spanish
	`el los las unos unas uno una y o pero no es son fue ser ha han que de del al en con por para sin sobre como más su sus
	se lo le les este esta estos estas ese esa`,
	// Italian
	`il lo gli uno di da del della dei delle nel nella e ed o ma non è sono che con per su come più si al alla ai alle`,
	// Portuguese
	`os um uma uns umas do da dos das no na nos nas em e ou mas não é são foi ser ter que com por para sem como mais se ao aos`,
	// Dutch
	`het een en of maar niet is zijn was waren wordt worden van in op te aan met voor door bij uit om als dat die dit deze er
	ook naar dan`,
	// Swedish, Danish, Norwegian
	`och att det som en ett den på är av för med till inte om har de var han hon vi og at er ikke på til af fra`,
	// Russian
	`и в во не что он на я с со как а то все она так его но да ты к у же вы за бы по только ее мне было вот от меня еще нет о из
	ему для это этот эта эти быть был была были или если при`,
	// Polish, Czech
	`i w na z do nie się to jest że od za po jak co ale przez dla oraz są być się a v je se že ve pro jako`,
	// Turkish
	`ve bir bu da de için ile çok daha gibi olan olarak ne ama en mi`,
	// Arabic
	`في من على إلى عن أن إن ما لا هذا هذه ذلك التي الذي هو هي و أو ثم قد كان كانت مع كل بين`,
	// Hindi
	`के का की को में है हैं से और पर यह वह एक था थी थे ने कि जो तो भी नहीं हो कर ही`,
	// Indonesian, Vietnamese
	`yang dan di ke dari untuk dengan pada adalah ini itu tidak akan juga và của là có trong cho các được với một những này`,
}

const commonEnglish = `able according across actual actually add added adding additional allow allowed allows almost along
already although always among amount another anything appear apply around ask available away back based become becomes
began begin behind believe best better big bring call called came case cases certain change changed changes choice clear
clearly close come comes coming common commonly complete completely consider contain contains could course current currently
day days decide depend depending describe described despite detail details determine did different difficult discuss done due
early easy effect either end enough entire especially even every everyone everything exactly example examples except exist
existing expect expected explain fact far feel find first five follow followed following follows form four found full general
generally get gets getting give given gives giving go goes going good got great group groups had happen happens help helps
high higher hold however idea important include included includes including increase instead issue issues item items keep kept
kind know known large larger last later least leave less let level life like likely list little long longer look looking lot
low lower made main mainly make makes making many matter mean means method might mind much name necessary need needed needs
never new next non note nothing number numbers obtain occur occurs often old one ones order others part particular
parts people perhaps place point points possible present problem problems process provide provided provides put question
questions quite rather read real really reason reasons receive recommend recommended refer related required requires result
results right role run said say says second section see seem seems seen set several show shown shows side significant
similar simple simply since small someone something sometimes soon special specific start started state still take taken
takes taking talk tell term terms thing things think third though thought three thus time times today together toward try
trying turn two type types typical typically under understand unless use used useful user uses using usual usually value
various very want wants way ways week well went whatever whole will wish word words work working works world write written
year years yes`
