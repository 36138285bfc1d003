CREATE TABLE `message` (
          `id` text PRIMARY KEY,
          `session_id` text NOT NULL,
          `time_created` integer NOT NULL,
          `time_updated` integer NOT NULL,
          `data` text NOT NULL,
          CONSTRAINT `fk_message_session_id_session_id_fk` FOREIGN KEY (`session_id`) REFERENCES `session`(`id`) ON DELETE CASCADE
        );
INSERT INTO "message" VALUES('msg_1ec14069c001Yl4UIZMAGFuoEb','ses_e13ebfa61ffeK8gOsFJplCYscV',1794962097820,1794962097847,'{"role":"user","time":{"created":1794962097820},"agent":"build","model":{"providerID":"local","modelID":"a-model"}}');
INSERT INTO "message" VALUES('msg_1ec140e5a001Zgwr47uZ9drIva','ses_e13ebfa61ffeK8gOsFJplCYscV',1794962099802,1794962100817,'{"parentID":"msg_1ec14069c001Yl4UIZMAGFuoEb","role":"assistant","mode":"build","agent":"build","path":{"cwd":"/home/user/work","root":"/"},"cost":0,"tokens":{"total":15,"input":10,"output":5,"reasoning":0,"cache":{"write":0,"read":0}},"modelID":"a-model","providerID":"local","time":{"created":1794962099802,"completed":1794962100813},"finish":"stop"}');
INSERT INTO "message" VALUES('msg_1ec142978001RK0hO3PfTASjpO','ses_e13ebfa61ffeK8gOsFJplCYscV',1794962106744,1794962112444,'{"role":"user","time":{"created":1794962106744},"agent":"build","model":{"providerID":"local","modelID":"a-model"},"summary":{"diffs":[]}}');
INSERT INTO "message" VALUES('msg_1ec1434b3001ljf7KSYanRxLYm','ses_e13ebfa61ffeK8gOsFJplCYscV',1794962109619,1794962112377,'{"parentID":"msg_1ec142978001RK0hO3PfTASjpO","role":"assistant","mode":"build","agent":"build","path":{"cwd":"/home/user/work","root":"/"},"cost":0,"tokens":{"total":15,"input":10,"output":5,"reasoning":0,"cache":{"write":0,"read":0}},"modelID":"a-model","providerID":"local","time":{"created":1794962109619,"completed":1794962112374},"finish":"tool-calls"}');
INSERT INTO "message" VALUES('msg_1ec143f84001eO3AW5DYWB2J3z','ses_e13ebfa61ffeK8gOsFJplCYscV',1794962112388,1794962112603,'{"parentID":"msg_1ec142978001RK0hO3PfTASjpO","role":"assistant","mode":"build","agent":"build","path":{"cwd":"/home/user/work","root":"/"},"cost":0,"tokens":{"total":15,"input":10,"output":5,"reasoning":0,"cache":{"write":0,"read":0}},"modelID":"a-model","providerID":"local","time":{"created":1794962112388,"completed":1794962112602},"finish":"stop"}');
INSERT INTO "message" VALUES('msg_1ec145e550016rmFstBLM3TCQm','ses_e13eba1e2ffeb7g6lCaLteYQXe',1794962097820,1794962120292,'{"role":"user","time":{"created":1794962097820},"agent":"build","model":{"providerID":"local","modelID":"a-model"}}');
INSERT INTO "message" VALUES('msg_1ec146b06001WBxjulhTPfwVlL','ses_e13eba1e2ffeb7g6lCaLteYQXe',1794962099802,1794962123527,'{"parentID":"msg_1ec145e550016rmFstBLM3TCQm","role":"assistant","mode":"build","agent":"build","path":{"cwd":"/home/user/work","root":"/"},"cost":0,"tokens":{"total":15,"input":10,"output":5,"reasoning":0,"cache":{"write":0,"read":0}},"modelID":"a-model","providerID":"local","time":{"created":1794962099802,"completed":1794962100813},"finish":"stop"}');
INSERT INTO "message" VALUES('msg_1ec146b41001eOcVMy9c37Cgfo','ses_e13eba1e2ffeb7g6lCaLteYQXe',1794962106744,1794962123587,'{"role":"user","time":{"created":1794962106744},"agent":"build","model":{"providerID":"local","modelID":"a-model"},"summary":{"diffs":[]}}');
INSERT INTO "message" VALUES('msg_1ec146b49001UkozBoci3mRRe3','ses_e13eba1e2ffeb7g6lCaLteYQXe',1794962109619,1794962123594,'{"parentID":"msg_1ec146b41001eOcVMy9c37Cgfo","role":"assistant","mode":"build","agent":"build","path":{"cwd":"/home/user/work","root":"/"},"cost":0,"tokens":{"total":15,"input":10,"output":5,"reasoning":0,"cache":{"write":0,"read":0}},"modelID":"a-model","providerID":"local","time":{"created":1794962109619,"completed":1794962112374},"finish":"tool-calls"}');
INSERT INTO "message" VALUES('msg_1ec146b87001VLoJ0QEjuXPARQ','ses_e13eba1e2ffeb7g6lCaLteYQXe',1794962112388,1794962123657,'{"parentID":"msg_1ec146b41001eOcVMy9c37Cgfo","role":"assistant","mode":"build","agent":"build","path":{"cwd":"/home/user/work","root":"/"},"cost":0,"tokens":{"total":15,"input":10,"output":5,"reasoning":0,"cache":{"write":0,"read":0}},"modelID":"a-model","providerID":"local","time":{"created":1794962112388,"completed":1794962112602},"finish":"stop"}');
INSERT INTO "message" VALUES('msg_1ec146c5c001ZBHcB38Wxo8hto','ses_e13eba1e2ffeb7g6lCaLteYQXe',1794962123868,1794962128609,'{"role":"user","time":{"created":1794962123868},"agent":"build","model":{"providerID":"local","modelID":"a-model"},"summary":{"diffs":[]}}');
INSERT INTO "message" VALUES('msg_1ec146d29001Q836J7Eq8jyNyt','ses_e13eba1e2ffeb7g6lCaLteYQXe',1794962124073,1794962128472,'{"parentID":"msg_1ec146c5c001ZBHcB38Wxo8hto","role":"assistant","mode":"build","agent":"build","path":{"cwd":"/home/user/work","root":"/"},"cost":0,"tokens":{"total":15,"input":10,"output":5,"reasoning":0,"cache":{"write":0,"read":0}},"modelID":"a-model","providerID":"local","time":{"created":1794962124073,"completed":1794962128459},"finish":"tool-calls"}');
INSERT INTO "message" VALUES('msg_1ec147e5f001p2jpI4IcNeLRth','ses_e13eba1e2ffeb7g6lCaLteYQXe',1794962128479,1794962129453,'{"parentID":"msg_1ec146c5c001ZBHcB38Wxo8hto","role":"assistant","mode":"build","agent":"build","path":{"cwd":"/home/user/work","root":"/"},"cost":0,"tokens":{"total":15,"input":10,"output":5,"reasoning":0,"cache":{"write":0,"read":0}},"modelID":"a-model","providerID":"local","time":{"created":1794962128479,"completed":1794962129452},"finish":"stop"}');
INSERT INTO "message" VALUES('msg_1ec14966e001fkLSkn0PlWe5c1','ses_e13eb6a40ffeFlxlLUrz2TPWNu',1794962134638,1794962138218,'{"role":"user","time":{"created":1794962134638},"agent":"build","model":{"providerID":"local","modelID":"a-model"},"summary":{"diffs":[]}}');
INSERT INTO "message" VALUES('msg_1ec14a389001BasvA9GYMThxdh','ses_e13eb6a40ffeFlxlLUrz2TPWNu',1794962137993,1794962139025,'{"parentID":"msg_1ec14966e001fkLSkn0PlWe5c1","role":"assistant","mode":"build","agent":"build","path":{"cwd":"/home/user/work","root":"/"},"cost":0,"tokens":{"input":0,"output":0,"reasoning":0,"cache":{"read":0,"write":0}},"modelID":"a-model","providerID":"local","time":{"created":1794962137993,"completed":1794962139007},"error":{"name":"APIError","data":{"message":"bad request","statusCode":400,"isRetryable":false,"responseHeaders":{"content-length":"75","content-type":"application/json","date":"Wed, 18 Nov 2026 00:35:38 GMT","server":"BaseHTTP/0.6 Python/3.11.7"},"responseBody":"{\"type\": \"error\", \"error\": {\"type\": \"api_error\", \"message\": \"bad request\"}}","metadata":{"url":"http://127.0.0.1:37673/v1/messages"}}}}');
INSERT INTO "message" VALUES('msg_1ec14c1b6001s2d6103TO3wY7z','ses_e13eb3f2bffeMwU2Nr5mir1z2g',1794962145718,1794962152622,'{"role":"user","time":{"created":1794962145718},"agent":"build","model":{"providerID":"local","modelID":"a-model"},"summary":{"diffs":[]}}');
INSERT INTO "message" VALUES('msg_1ec14cea6001fDd6W8DaHVD36t','ses_e13eb3f2bffeMwU2Nr5mir1z2g',1794962149030,1794962152514,'{"parentID":"msg_1ec14c1b6001s2d6103TO3wY7z","role":"assistant","mode":"build","agent":"build","path":{"cwd":"/home/user/work","root":"/"},"cost":0,"tokens":{"total":15,"input":10,"output":5,"reasoning":0,"cache":{"write":0,"read":0}},"modelID":"a-model","providerID":"local","time":{"created":1794962149030,"completed":1794962152514},"finish":"tool-calls"}');
INSERT INTO "message" VALUES('msg_1ec14d1d40011tN4zof3bO21bM','ses_e13eb2e84ffeQNqZag3mqDrIEH',1794962149845,1794962152578,'{"role":"user","time":{"created":1794962149845},"agent":"general","model":{"providerID":"local","modelID":"a-model"},"summary":{"diffs":[]}}');
INSERT INTO "message" VALUES('msg_1ec14d71b001naJZWPnXREKCCH','ses_e13eb2e84ffeQNqZag3mqDrIEH',1794962151195,1794962152440,'{"parentID":"msg_1ec14d1d40011tN4zof3bO21bM","role":"assistant","mode":"general","agent":"general","path":{"cwd":"/home/user/work","root":"/"},"cost":0,"tokens":{"total":15,"input":10,"output":5,"reasoning":0,"cache":{"write":0,"read":0}},"modelID":"a-model","providerID":"local","time":{"created":1794962151195,"completed":1794962152431},"finish":"stop"}');
INSERT INTO "message" VALUES('msg_1ec14dc4a001dfzIVsqVxfxbyQ','ses_e13eb3f2bffeMwU2Nr5mir1z2g',1794962152522,1794962152974,'{"parentID":"msg_1ec14c1b6001s2d6103TO3wY7z","role":"assistant","mode":"build","agent":"build","path":{"cwd":"/home/user/work","root":"/"},"cost":0,"tokens":{"total":15,"input":10,"output":5,"reasoning":0,"cache":{"write":0,"read":0}},"modelID":"a-model","providerID":"local","time":{"created":1794962152522,"completed":1794962152973},"finish":"stop"}');
INSERT INTO "message" VALUES('msg_1ec14f049001g6ngVB5USv5ZEc','ses_e13eb1070ffedPa4jAoXi6dA00',1794962157642,1794962160543,'{"role":"user","time":{"created":1794962157642},"agent":"build","model":{"providerID":"local","modelID":"a-model"},"summary":{"diffs":[]}}');
INSERT INTO "message" VALUES('msg_1ec14fb3d001artOCZPVOnzYlg','ses_e13eb1070ffedPa4jAoXi6dA00',1794962160445,1794962160446,'{"parentID":"msg_1ec14f049001g6ngVB5USv5ZEc","role":"assistant","mode":"build","agent":"build","path":{"cwd":"/home/user/work","root":"/"},"cost":0,"tokens":{"input":0,"output":0,"reasoning":0,"cache":{"read":0,"write":0}},"modelID":"a-model","providerID":"local","time":{"created":1794962160445}}');
CREATE TABLE `part` (
          `id` text PRIMARY KEY,
          `message_id` text NOT NULL,
          `session_id` text NOT NULL,
          `time_created` integer NOT NULL,
          `time_updated` integer NOT NULL,
          `data` text NOT NULL,
          CONSTRAINT `fk_part_message_id_message_id_fk` FOREIGN KEY (`message_id`) REFERENCES `message`(`id`) ON DELETE CASCADE
        );
INSERT INTO "part" VALUES('prt_1ec1406b0001smrHVINEhaeKjk','msg_1ec14069c001Yl4UIZMAGFuoEb','ses_e13ebfa61ffeK8gOsFJplCYscV',1794962099768,1794962099770,'{"type":"text","text":"\"Where are we going?\""}');
INSERT INTO "part" VALUES('prt_1ec141190001UHmmOi36naup4k','msg_1ec140e5a001Zgwr47uZ9drIva','ses_e13ebfa61ffeK8gOsFJplCYscV',1794962100625,1794962100633,'{"type":"step-start"}');
INSERT INTO "part" VALUES('prt_1ec1411a8001Yqs04oQG8QIdvF','msg_1ec140e5a001Zgwr47uZ9drIva','ses_e13ebfa61ffeK8gOsFJplCYscV',1794962100648,1794962100705,'{"type":"reasoning","text":"Which one?","time":{"start":1794962100648,"end":1794962100690},"metadata":{"anthropic":{"signature":"c2lnbmVk"}}}');
INSERT INTO "part" VALUES('prt_1ec1411f0001DaqoNHNT8h7pXV','msg_1ec140e5a001Zgwr47uZ9drIva','ses_e13ebfa61ffeK8gOsFJplCYscV',1794962100720,1794962100743,'{"type":"text","text":"Rome.","time":{"start":1794962100720,"end":1794962100741}}');
INSERT INTO "part" VALUES('prt_1ec141224001i6aMWsNcSacPPe','msg_1ec140e5a001Zgwr47uZ9drIva','ses_e13ebfa61ffeK8gOsFJplCYscV',1794962100773,1794962100780,'{"reason":"stop","type":"step-finish","tokens":{"total":15,"input":10,"output":5,"reasoning":0,"cache":{"write":0,"read":0}},"cost":0}');
INSERT INTO "part" VALUES('prt_1ec1429b6001SFCx7gx5X04pVa','msg_1ec142978001RK0hO3PfTASjpO','ses_e13ebfa61ffeK8gOsFJplCYscV',1794962109599,1794962109601,'{"type":"text","text":"\"What is in a.txt?\""}');
INSERT INTO "part" VALUES('prt_1ec143e8b0013hauieqIbRy9da','msg_1ec1434b3001ljf7KSYanRxLYm','ses_e13ebfa61ffeK8gOsFJplCYscV',1794962112139,1794962112153,'{"type":"step-start"}');
INSERT INTO "part" VALUES('prt_1ec143e9b001J04w5yA4xWs0Es','msg_1ec1434b3001ljf7KSYanRxLYm','ses_e13ebfa61ffeK8gOsFJplCYscV',1794962112155,1794962112182,'{"type":"text","text":"Let me look.","time":{"start":1794962112155,"end":1794962112180}}');
INSERT INTO "part" VALUES('prt_1ec143ec1001OtWVcsU8wXIvLo','msg_1ec1434b3001ljf7KSYanRxLYm','ses_e13ebfa61ffeK8gOsFJplCYscV',1794962112193,1794962112353,'{"type":"tool","tool":"read","callID":"toolu_1","state":{"status":"completed","input":{"filePath":"/home/user/work/a.txt"},"output":"<path>/home/user/work/a.txt</path>\n<type>file</type>\n<content>\n1: alpha\n\n(End of file - total 1 lines)\n</content>","metadata":{"preview":"alpha","truncated":false,"loaded":[],"display":{"type":"file","path":"/home/user/work/a.txt","text":"alpha","lineStart":1,"lineEnd":1,"totalLines":1,"truncated":false}},"title":"home/user/work/a.txt","time":{"start":1794962112252,"end":1794962112351}}}');
INSERT INTO "part" VALUES('prt_1ec143f65001QB1R4833TRc49S','msg_1ec1434b3001ljf7KSYanRxLYm','ses_e13ebfa61ffeK8gOsFJplCYscV',1794962112357,1794962112358,'{"reason":"tool-calls","type":"step-finish","tokens":{"total":15,"input":10,"output":5,"reasoning":0,"cache":{"write":0,"read":0}},"cost":0}');
INSERT INTO "part" VALUES('prt_1ec144012001HQMUNoBgzZTlbE','msg_1ec143f84001eO3AW5DYWB2J3z','ses_e13ebfa61ffeK8gOsFJplCYscV',1794962112530,1794962112540,'{"type":"step-start"}');
INSERT INTO "part" VALUES('prt_1ec14401e001Rc8HTQrgii9tu7','msg_1ec143f84001eO3AW5DYWB2J3z','ses_e13ebfa61ffeK8gOsFJplCYscV',1794962112543,1794962112573,'{"type":"text","text":"It says alpha.","time":{"start":1794962112543,"end":1794962112563}}');
INSERT INTO "part" VALUES('prt_1ec14403f0015db8LOggeAbGle','msg_1ec143f84001eO3AW5DYWB2J3z','ses_e13ebfa61ffeK8gOsFJplCYscV',1794962112575,1794962112585,'{"reason":"stop","type":"step-finish","tokens":{"total":15,"input":10,"output":5,"reasoning":0,"cache":{"write":0,"read":0}},"cost":0}');
INSERT INTO "part" VALUES('prt_1ec146af8001laIohecma9urdD','msg_1ec145e550016rmFstBLM3TCQm','ses_e13eba1e2ffeb7g6lCaLteYQXe',1794962123512,1794962123524,'{"type":"text","text":"\"Where are we going?\""}');
INSERT INTO "part" VALUES('prt_1ec146b0c0019uDaXoR7SyjY7u','msg_1ec146b06001WBxjulhTPfwVlL','ses_e13eba1e2ffeb7g6lCaLteYQXe',1794962123532,1794962123536,'{"type":"step-start"}');
INSERT INTO "part" VALUES('prt_1ec146b110019nzJ6d5VElVFhc','msg_1ec146b06001WBxjulhTPfwVlL','ses_e13eba1e2ffeb7g6lCaLteYQXe',1794962123537,1794962123539,'{"type":"reasoning","text":"Which one?","time":{"start":1794962100648,"end":1794962100690},"metadata":{"anthropic":{"signature":"c2lnbmVk"}}}');
INSERT INTO "part" VALUES('prt_1ec146b1c0010c8woj2nOWaCMS','msg_1ec146b06001WBxjulhTPfwVlL','ses_e13eba1e2ffeb7g6lCaLteYQXe',1794962123550,1794962123564,'{"type":"text","text":"Rome.","time":{"start":1794962100720,"end":1794962100741}}');
INSERT INTO "part" VALUES('prt_1ec146b31001BTnTdIdbGxpVyA','msg_1ec146b06001WBxjulhTPfwVlL','ses_e13eba1e2ffeb7g6lCaLteYQXe',1794962123569,1794962123577,'{"reason":"stop","type":"step-finish","tokens":{"total":15,"input":10,"output":5,"reasoning":0,"cache":{"write":0,"read":0}},"cost":0}');
INSERT INTO "part" VALUES('prt_1ec146b45001x6g88Tjz4AWoog','msg_1ec146b41001eOcVMy9c37Cgfo','ses_e13eba1e2ffeb7g6lCaLteYQXe',1794962123589,1794962123591,'{"type":"text","text":"\"What is in a.txt?\""}');
INSERT INTO "part" VALUES('prt_1ec146b4e0012niIIxBam7CUS3','msg_1ec146b49001UkozBoci3mRRe3','ses_e13eba1e2ffeb7g6lCaLteYQXe',1794962123598,1794962123605,'{"type":"step-start"}');
INSERT INTO "part" VALUES('prt_1ec146b56001dzOtiwp2EjmlQt','msg_1ec146b49001UkozBoci3mRRe3','ses_e13eba1e2ffeb7g6lCaLteYQXe',1794962123606,1794962123607,'{"type":"text","text":"Let me look.","time":{"start":1794962112155,"end":1794962112180}}');
INSERT INTO "part" VALUES('prt_1ec146b5d001NI9XLBlPQSzJBw','msg_1ec146b49001UkozBoci3mRRe3','ses_e13eba1e2ffeb7g6lCaLteYQXe',1794962123613,1794962123620,'{"type":"tool","tool":"read","callID":"toolu_1","state":{"status":"completed","input":{"filePath":"/home/user/work/a.txt"},"output":"<path>/home/user/work/a.txt</path>\n<type>file</type>\n<content>\n1: alpha\n\n(End of file - total 1 lines)\n</content>","metadata":{"preview":"alpha","truncated":false,"loaded":[],"display":{"type":"file","path":"/home/user/work/a.txt","text":"alpha","lineStart":1,"lineEnd":1,"totalLines":1,"truncated":false}},"title":"home/user/work/a.txt","time":{"start":1794962112252,"end":1794962112351}}}');
INSERT INTO "part" VALUES('prt_1ec146b65001G6JzqGxvITud4X','msg_1ec146b49001UkozBoci3mRRe3','ses_e13eba1e2ffeb7g6lCaLteYQXe',1794962123621,1794962123627,'{"reason":"tool-calls","type":"step-finish","tokens":{"total":15,"input":10,"output":5,"reasoning":0,"cache":{"write":0,"read":0}},"cost":0}');
INSERT INTO "part" VALUES('prt_1ec146b8a001wqvPjj4LpufhCT','msg_1ec146b87001VLoJ0QEjuXPARQ','ses_e13eba1e2ffeb7g6lCaLteYQXe',1794962123658,1794962123659,'{"type":"step-start"}');
INSERT INTO "part" VALUES('prt_1ec146b9b001ZOv02UJc1DxGEp','msg_1ec146b87001VLoJ0QEjuXPARQ','ses_e13eba1e2ffeb7g6lCaLteYQXe',1794962123675,1794962123679,'{"type":"text","text":"It says alpha.","time":{"start":1794962112543,"end":1794962112563}}');
INSERT INTO "part" VALUES('prt_1ec146ba2001DwVlkjxtyNH4Yw','msg_1ec146b87001VLoJ0QEjuXPARQ','ses_e13eba1e2ffeb7g6lCaLteYQXe',1794962123682,1794962123683,'{"reason":"stop","type":"step-finish","tokens":{"total":15,"input":10,"output":5,"reasoning":0,"cache":{"write":0,"read":0}},"cost":0}');
INSERT INTO "part" VALUES('prt_1ec146c63001wunKElZAI1afmP','msg_1ec146c5c001ZBHcB38Wxo8hto','ses_e13eba1e2ffeb7g6lCaLteYQXe',1794962123906,1794962123907,'{"type":"text","text":"\"Do it all\""}');
INSERT INTO "part" VALUES('prt_1ec1471a0001AMd3yZ5ZycbR0o','msg_1ec146d29001Q836J7Eq8jyNyt','ses_e13eba1e2ffeb7g6lCaLteYQXe',1794962125216,1794962125218,'{"type":"step-start"}');
INSERT INTO "part" VALUES('prt_1ec1471a9001dkFSFoJvFsydCW','msg_1ec146d29001Q836J7Eq8jyNyt','ses_e13eba1e2ffeb7g6lCaLteYQXe',1794962125226,1794962125397,'{"type":"text","text":"Both at once.","time":{"start":1794962125225,"end":1794962125362}}');
INSERT INTO "part" VALUES('prt_1ec147269001htnID35MWpPNw4','msg_1ec146d29001Q836J7Eq8jyNyt','ses_e13eba1e2ffeb7g6lCaLteYQXe',1794962125417,1794962128389,'{"type":"tool","tool":"bash","callID":"toolu_2","state":{"status":"completed","input":{"command":"exit 3","description":"Fails"},"output":"(no output)","metadata":{"output":"(no output)","exit":3,"truncated":false},"title":"exit 3","time":{"start":1794962125542,"end":1794962128382}}}');
INSERT INTO "part" VALUES('prt_1ec147301001ofe2L8AcW1YEJM','msg_1ec146d29001Q836J7Eq8jyNyt','ses_e13eba1e2ffeb7g6lCaLteYQXe',1794962125569,1794962125785,'{"type":"tool","tool":"read","callID":"toolu_3","state":{"status":"error","input":{"filePath":"/home/user/work/none.txt"},"error":"File not found: /home/user/work/none.txt","time":{"start":1794962125694,"end":1794962125771}}}');
INSERT INTO "part" VALUES('prt_1ec147e18001T0Vc7T6UTybYtM','msg_1ec146d29001Q836J7Eq8jyNyt','ses_e13eba1e2ffeb7g6lCaLteYQXe',1794962128408,1794962128409,'{"reason":"tool-calls","type":"step-finish","tokens":{"total":15,"input":10,"output":5,"reasoning":0,"cache":{"write":0,"read":0}},"cost":0}');
INSERT INTO "part" VALUES('prt_1ec1482010017A6azhcDELEUFf','msg_1ec147e5f001p2jpI4IcNeLRth','ses_e13eba1e2ffeb7g6lCaLteYQXe',1794962129409,1794962129413,'{"type":"step-start"}');
INSERT INTO "part" VALUES('prt_1ec148208001Y1fj21FR4okkdb','msg_1ec147e5f001p2jpI4IcNeLRth','ses_e13eba1e2ffeb7g6lCaLteYQXe',1794962129416,1794962129426,'{"type":"text","text":"Both failed.","time":{"start":1794962129416,"end":1794962129419}}');
INSERT INTO "part" VALUES('prt_1ec14821d001Af2DlQyvDidt6E','msg_1ec147e5f001p2jpI4IcNeLRth','ses_e13eba1e2ffeb7g6lCaLteYQXe',1794962129437,1794962129438,'{"reason":"stop","type":"step-finish","tokens":{"total":15,"input":10,"output":5,"reasoning":0,"cache":{"write":0,"read":0}},"cost":0}');
INSERT INTO "part" VALUES('prt_1ec14968f001ynwT0YY3A480ST','msg_1ec14966e001fkLSkn0PlWe5c1','ses_e13eb6a40ffeFlxlLUrz2TPWNu',1794962137976,1794962137979,'{"type":"text","text":"\"This one fails\""}');
INSERT INTO "part" VALUES('prt_1ec14c1be001KXcRPFV02rEMNa','msg_1ec14c1b6001s2d6103TO3wY7z','ses_e13eb3f2bffeMwU2Nr5mir1z2g',1794962149010,1794962149014,'{"type":"text","text":"\"Send an agent\""}');
INSERT INTO "part" VALUES('prt_1ec14d08c001Dqn6MNs1NpRYwC','msg_1ec14cea6001fDd6W8DaHVD36t','ses_e13eb3f2bffeMwU2Nr5mir1z2g',1794962149517,1794962149518,'{"type":"step-start"}');
INSERT INTO "part" VALUES('prt_1ec14d092001k5guLm5kIwqxu3','msg_1ec14cea6001fDd6W8DaHVD36t','ses_e13eb3f2bffeMwU2Nr5mir1z2g',1794962149522,1794962152498,'{"type":"tool","tool":"task","callID":"toolu_4","state":{"status":"completed","input":{"description":"Looks around","prompt":"Look around","subagent_type":"general"},"output":"<task id=\"ses_e13eb2e84ffeQNqZag3mqDrIEH\" state=\"completed\">\n<task_result>\nOne file.\n</task_result>\n</task>","metadata":{"parentSessionId":"ses_e13eb3f2bffeMwU2Nr5mir1z2g","sessionId":"ses_e13eb2e84ffeQNqZag3mqDrIEH","model":{"modelID":"a-model","providerID":"local"},"truncated":false},"title":"Looks around","time":{"start":1794962149810,"end":1794962152496}}}');
INSERT INTO "part" VALUES('prt_1ec14d1f1001gInHEYtVmbJm37','msg_1ec14d1d40011tN4zof3bO21bM','ses_e13eb2e84ffeQNqZag3mqDrIEH',1794962149875,1794962149895,'{"type":"text","text":"Look around"}');
INSERT INTO "part" VALUES('prt_1ec14dbc6001rr0NrZHx3F6mO0','msg_1ec14d71b001naJZWPnXREKCCH','ses_e13eb2e84ffeQNqZag3mqDrIEH',1794962152390,1794962152391,'{"type":"step-start"}');
INSERT INTO "part" VALUES('prt_1ec14dbcd001l3oiu0oUuy2F1U','msg_1ec14d71b001naJZWPnXREKCCH','ses_e13eb2e84ffeQNqZag3mqDrIEH',1794962152397,1794962152405,'{"type":"text","text":"One file.","time":{"start":1794962152397,"end":1794962152404}}');
INSERT INTO "part" VALUES('prt_1ec14dbe1001A5eY9i0j2G4KqC','msg_1ec14d71b001naJZWPnXREKCCH','ses_e13eb2e84ffeQNqZag3mqDrIEH',1794962152417,1794962152419,'{"reason":"stop","type":"step-finish","tokens":{"total":15,"input":10,"output":5,"reasoning":0,"cache":{"write":0,"read":0}},"cost":0}');
INSERT INTO "part" VALUES('prt_1ec14dc3c0019wwfP3RAj4dPmB','msg_1ec14cea6001fDd6W8DaHVD36t','ses_e13eb3f2bffeMwU2Nr5mir1z2g',1794962152508,1794962152509,'{"reason":"tool-calls","type":"step-finish","tokens":{"total":15,"input":10,"output":5,"reasoning":0,"cache":{"write":0,"read":0}},"cost":0}');
INSERT INTO "part" VALUES('prt_1ec14ddbe001xePtMaEshXuNbD','msg_1ec14dc4a001dfzIVsqVxfxbyQ','ses_e13eb3f2bffeMwU2Nr5mir1z2g',1794962152894,1794962152900,'{"type":"step-start"}');
INSERT INTO "part" VALUES('prt_1ec14ddc600193Sv8Wd8DVWCC1','msg_1ec14dc4a001dfzIVsqVxfxbyQ','ses_e13eb3f2bffeMwU2Nr5mir1z2g',1794962152902,1794962152945,'{"type":"text","text":"The agent found one file.","time":{"start":1794962152902,"end":1794962152934}}');
INSERT INTO "part" VALUES('prt_1ec14ddf6001s2akOF7s9mph81','msg_1ec14dc4a001dfzIVsqVxfxbyQ','ses_e13eb3f2bffeMwU2Nr5mir1z2g',1794962152950,1794962152960,'{"reason":"stop","type":"step-finish","tokens":{"total":15,"input":10,"output":5,"reasoning":0,"cache":{"write":0,"read":0}},"cost":0}');
INSERT INTO "part" VALUES('prt_1ec14f054001mVj22wggpYA7b2','msg_1ec14f049001g6ngVB5USv5ZEc','ses_e13eb1070ffedPa4jAoXi6dA00',1794962160380,1794962160382,'{"type":"text","text":"\"Kill me\""}');
INSERT INTO "part" VALUES('prt_1ec150485001SSb42Gk60fECpN','msg_1ec14fb3d001artOCZPVOnzYlg','ses_e13eb1070ffedPa4jAoXi6dA00',1794962162821,1794962162830,'{"type":"step-start"}');
INSERT INTO "part" VALUES('prt_1ec150497001YLJ7JSQXAZkBsn','msg_1ec14fb3d001artOCZPVOnzYlg','ses_e13eb1070ffedPa4jAoXi6dA00',1794962162840,1794962162841,'{"type":"text","text":"","time":{"start":1794962162839}}');
CREATE TABLE `project` (
          `id` text PRIMARY KEY,
          `worktree` text NOT NULL,
          `vcs` text,
          `name` text,
          `icon_url` text,
          `icon_url_override` text,
          `icon_color` text,
          `time_created` integer NOT NULL,
          `time_updated` integer NOT NULL,
          `time_initialized` integer,
          `sandboxes` text NOT NULL,
          `commands` text
        );
INSERT INTO "project" VALUES('global','/',NULL,NULL,NULL,NULL,NULL,1794962096411,1794962156407,NULL,'[]',NULL);
CREATE TABLE `session` (
          `id` text PRIMARY KEY,
          `project_id` text NOT NULL,
          `workspace_id` text,
          `parent_id` text,
          `slug` text NOT NULL,
          `directory` text NOT NULL,
          `path` text,
          `title` text NOT NULL,
          `version` text NOT NULL,
          `share_url` text,
          `summary_additions` integer,
          `summary_deletions` integer,
          `summary_files` integer,
          `summary_diffs` text,
          `metadata` text,
          `cost` real DEFAULT 0 NOT NULL,
          `tokens_input` integer DEFAULT 0 NOT NULL,
          `tokens_output` integer DEFAULT 0 NOT NULL,
          `tokens_reasoning` integer DEFAULT 0 NOT NULL,
          `tokens_cache_read` integer DEFAULT 0 NOT NULL,
          `tokens_cache_write` integer DEFAULT 0 NOT NULL,
          `revert` text,
          `permission` text,
          `agent` text,
          `model` text,
          `time_created` integer NOT NULL,
          `time_updated` integer NOT NULL,
          `time_compacting` integer,
          `time_archived` integer,
          CONSTRAINT `fk_session_project_id_project_id_fk` FOREIGN KEY (`project_id`) REFERENCES `project`(`id`) ON DELETE CASCADE
        );
INSERT INTO "session" VALUES('ses_e13ebfa61ffeK8gOsFJplCYscV','global',NULL,NULL,'mighty-star','/home/user/work','home/user/work','A journey','1.18.33',NULL,0,0,0,NULL,NULL,0.0,30,15,0,0,0,NULL,'[{"permission":"question","pattern":"*","action":"deny"},{"permission":"plan_enter","pattern":"*","action":"deny"},{"permission":"plan_exit","pattern":"*","action":"deny"}]','build','{"id":"a-model","providerID":"local","variant":"default"}',1794962097566,1794962112682,NULL,NULL);
INSERT INTO "session" VALUES('ses_e13eba1e2ffeb7g6lCaLteYQXe','global',NULL,NULL,'neon-wizard','/home/user/work','home/user/work','A journey (fork #1)','1.18.33',NULL,0,0,0,NULL,NULL,0.0,50,25,0,0,0,NULL,NULL,'build','{"id":"a-model","providerID":"local","variant":"default"}',1794962120222,1794962129502,NULL,NULL);
INSERT INTO "session" VALUES('ses_e13eb6a40ffeFlxlLUrz2TPWNu','global',NULL,NULL,'shiny-comet','/home/user/work','home/user/work','A failure','1.18.33',NULL,0,0,0,NULL,NULL,0.0,0,0,0,0,0,NULL,'[{"permission":"question","pattern":"*","action":"deny"},{"permission":"plan_enter","pattern":"*","action":"deny"},{"permission":"plan_exit","pattern":"*","action":"deny"}]','build','{"id":"a-model","providerID":"local","variant":"default"}',1794962134463,1794962138185,NULL,NULL);
INSERT INTO "session" VALUES('ses_e13eb3f2bffeMwU2Nr5mir1z2g','global',NULL,NULL,'playful-comet','/home/user/work','home/user/work','An agent','1.18.33',NULL,0,0,0,NULL,NULL,0.0,20,10,0,0,0,NULL,'[{"permission":"question","pattern":"*","action":"deny"},{"permission":"plan_enter","pattern":"*","action":"deny"},{"permission":"plan_exit","pattern":"*","action":"deny"}]','build','{"id":"a-model","providerID":"local","variant":"default"}',1794962145492,1794962153101,NULL,NULL);
INSERT INTO "session" VALUES('ses_e13eb2e84ffeQNqZag3mqDrIEH','global',NULL,'ses_e13eb3f2bffeMwU2Nr5mir1z2g','stellar-rocket','/home/user/work','home/user/work','Looks around (@general subagent)','1.18.33',NULL,0,0,0,NULL,NULL,0.0,10,5,0,0,0,NULL,'[{"permission":"question","pattern":"*","action":"deny"},{"permission":"plan_enter","pattern":"*","action":"deny"},{"permission":"plan_exit","pattern":"*","action":"deny"},{"permission":"task","pattern":"*","action":"deny"}]','general','{"id":"a-model","providerID":"local","variant":"default"}',1794962149755,1794962152552,NULL,NULL);
INSERT INTO "session" VALUES('ses_e13eb1070ffedPa4jAoXi6dA00','global',NULL,NULL,'sunny-engine','/home/user/work','home/user/work','A kill','1.18.33',NULL,0,0,0,NULL,NULL,0.0,0,0,0,0,0,NULL,'[{"permission":"question","pattern":"*","action":"deny"},{"permission":"plan_enter","pattern":"*","action":"deny"},{"permission":"plan_exit","pattern":"*","action":"deny"}]','build','{"id":"a-model","providerID":"local","variant":"default"}',1794962157455,1794962160504,NULL,NULL);
